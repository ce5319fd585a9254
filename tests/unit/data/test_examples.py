"""Every example of docs/data runs by itself, as it is written but for places and numbers."""

import re
from pathlib import Path

import pytest
from PIL import Image

PAGES = Path(__file__).parents[3] / "docs" / "data"
NAMES = ("tiered", "concurrent", "loader", "transforms")  # datasets.md has a test of its own
EXAMPLES = {
    f"{name} {number}": example
    for name in NAMES
    for number, example in enumerate(
        re.findall(r"^```python\n(.*?)^```", (PAGES / f"{name}.md").read_text(), re.S | re.M)
    )
}
HERE = {
    '"/scratch/cache"': '"cache"',
    '"200 GB"': '"2 MB"',
    '"s3://bucket/imagenet/train"': '"photos"',
    '{"anon": True}': "{}",
    "n01440764/n01440764_18.JPEG": "cat/1.jpg",
    "n01443537/n01443537_2.JPEG": "dog/2.jpg",
    "epoch, 90)": "epoch, 1)",
}


@pytest.fixture
def _photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("cat/1.jpg", "dog/2.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(tmp_path / "photos" / name)


@pytest.mark.usefixtures("_photos")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_by_itself(name):
    example = re.sub(r"num_workers=\d", "num_workers=0", EXAMPLES[name])
    for there, here in HERE.items():
        example = example.replace(there, here)
    known = {"__name__": "example"}
    exec(compile(example, name, "exec"), known)
    if "loader" in known:
        assert next(iter(known["loader"])) is not None
