"""docs/data/datasets.md: its examples run, and its tables have every option with its default."""

from __future__ import annotations

import hashlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hotlap.data import cifar, download
from hotlap.data.images import SUFFIXES
from hotlap.data.superres import Pairs
from hotlap.data.synthetic import SyntheticImages

PAGE = Path(__file__).parents[3] / "docs" / "data" / "datasets.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def jpeg(side: int = 32) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (side, side), (10, 100, 200)).save(held, "JPEG")
    return held.getvalue()


@pytest.fixture
def _surroundings(tmp_path: Path, monkeypatch: Any, server: Any, tar: Any) -> None:
    """The files the examples name, and the network they download from."""
    monkeypatch.chdir(tmp_path)
    for name, side in (("cat/1.jpg", 40), ("dog/2.jpg", 50)):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(jpeg(side))
    shots = {f"{split}/cat/0000.jpg": jpeg() for split in ("train", "test")}
    (tmp_path / "cifar10-jpeg.tar.xz").write_bytes(tar(shots, "w:xz"))
    names = [name for split in cifar.FILES.values() for name in split]
    server.content = tar({name: bytes(cifar.RECORD) for name in names})
    monkeypatch.setattr(cifar, "SIZE", len(server.content))
    monkeypatch.setattr(cifar, "SHA256", hashlib.sha256(server.content).hexdigest())
    plain = download.fetch
    monkeypatch.setattr(
        download, "fetch", lambda url, target, **options: plain(server.url, target, **options)
    )


@pytest.mark.usefixtures("_surroundings")
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_example_runs(number: int) -> None:
    exec(compile(EXAMPLES[number], f"example {number} of {PAGE.name}", "exec"), {})


def test_there_is_an_example_of_each() -> None:
    text = "\n".join(EXAMPLES)
    for name in ("SyntheticImages(", "Cifar10.download(", "from_jpegs(", "Folder(", "Pairs("):
        assert name in text


@pytest.mark.parametrize("kind", [SyntheticImages, Pairs])
def test_every_option_stands_in_a_table_with_its_default(kind: Any) -> None:
    words = {None: "none", True: "on", False: "off"}
    for name, option in inspect.signature(kind).parameters.items():
        if option.kind is not option.KEYWORD_ONLY:
            continue
        default = option.default
        shown = words[default] if default is None or isinstance(default, bool) else str(default)
        row = re.search(rf"^\| `{name}` \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
        assert row is not None, name
        assert row.group(1).strip("`") == shown.removeprefix("torch."), name


def test_every_kind_of_file_is_named() -> None:
    text = PAGE.read_text().lower()
    short = {b".jpg": "jpeg", b".tif": "tiff"}
    for suffix in SUFFIXES:
        assert short.get(suffix, suffix.decode()[1:]) in text


def test_the_archive_is_as_large_as_the_page_says() -> None:
    assert f"the original, {cifar.SIZE / 1e6:.0f} MB" in PAGE.read_text()


def test_the_patience_of_a_download_is_that_of_the_code() -> None:
    options = inspect.signature(download.fetch).parameters
    assert f"({options['timeout'].default:g} s without a byte)" in PAGE.read_text()
    assert f"\n{options['attempts'].default} tries in a row" in PAGE.read_text()


def test_links_within_the_page_lead_to_headings() -> None:
    text = PAGE.read_text()
    headings = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings
