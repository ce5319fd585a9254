from __future__ import annotations

import gzip
import hashlib
import io
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from hotlap.data import cifar, stored
from hotlap.data.cifar import CLASSES, FILES, Cifar10
from hotlap.data.cifar_jpegs import in_tar
from hotlap.data.decoding import ImageError
from hotlap.errors import UsageError

RECORDS = 3  # in each file of a tiny archive


def record(label: int, number: int) -> bytes:
    return bytes([label]) + bytes((number + at) % 256 for at in range(3072))


def binary_files() -> dict[str, bytes]:
    files = {"cifar-10-batches-bin/readme.html": b"about it"}
    names = [name for split in FILES.values() for name in split]
    for at, name in enumerate(names):
        numbers = range(RECORDS * at, RECORDS * (at + 1))
        files[name] = b"".join(record(number % 10, number) for number in numbers)
    return files


def jpeg(colour: tuple[int, int, int], side: int = 32) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(held, "JPEG", quality=95)
    return held.getvalue()


def jpeg_files() -> dict[str, bytes]:
    files = {"notes.txt": b"about it", "train/cat/._0.jpg": b"no image"}
    for label, name in reversed(list(enumerate(CLASSES))):
        for number in (1, 0):
            files[f"train/{name}/{number:04}.jpg"] = jpeg((20 * label, 100 * number, 0))
        files[f"test/{name}/0000.jpg"] = jpeg((20 * label, 200, 0))
    return files


@pytest.fixture
def archive(tmp_path: Path, tar: Any) -> Path:
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(tar(binary_files()))
    return path


@pytest.fixture
def jpegs(tmp_path: Path, tar: Any) -> Path:
    path = tmp_path / "jpegs.tar.xz"
    path.write_bytes(tar(jpeg_files(), "w:xz"))
    return path


# The binary version


def test_the_binary_version_is_read_in_its_order(archive: Path) -> None:
    train = Cifar10.from_binary(archive)
    assert train.images.shape == (5 * RECORDS, 3, 32, 32)
    assert train.images.dtype == torch.uint8
    assert train.labels.tolist() == [number % 10 for number in range(5 * RECORDS)]
    assert train.images[7].flatten().tolist() == list(record(7, 7)[1:])
    assert Cifar10.from_binary(archive, train=False).labels.tolist() == [5, 6, 7]


def test_it_is_a_data_set(archive: Path) -> None:
    train = Cifar10.from_binary(archive)
    assert len(train) == len(list(train)) == 15
    image, label = train[3]
    assert (image.shape, type(label), train.classes[label]) == ((3, 32, 32), int, "cat")


def test_names_that_lead_elsewhere_are_never_followed(tmp_path: Path, tar: Any) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    path = inside / "it.tar.gz"
    path.write_bytes(tar({"../evil": b"x", "/tmp/evil": b"x"} | binary_files()))
    assert len(Cifar10.from_binary(path)) == 15
    assert [found.name for found in tmp_path.rglob("*")] == ["in", "it.tar.gz"]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda files: files.pop(FILES["test"][0]), "has no .*test_batch.bin"),
        (lambda files: files.update({FILES["test"][0]: b"1234"}), "no whole images"),
        (lambda files: files.update({FILES["test"][0]: record(10, 0)}), "labels above 9"),
    ],
)
def test_an_archive_of_something_else_is_refused(
    tmp_path: Path, tar: Any, spoil: Any, reason: str
) -> None:
    files = binary_files()
    spoil(files)
    path = tmp_path / "other.tar.gz"
    path.write_bytes(tar(files))
    with pytest.raises(UsageError, match=reason):
        Cifar10.from_binary(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(b"no tar", mtime=0)],
    ids=["empty", "text", "no tar"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "it.tar.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"it\.tar\.gz"):
        Cifar10.from_binary(path)


def test_a_cut_archive_is_refused(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(UsageError, match="binary"):
        Cifar10.from_binary(archive)


# Downloading


@pytest.fixture
def offered(server: Any, archive: Path, monkeypatch: Any) -> Any:
    server.content = archive.read_bytes()
    archive.unlink()
    monkeypatch.setattr(cifar, "SIZE", len(server.content))
    monkeypatch.setattr(cifar, "SHA256", hashlib.sha256(server.content).hexdigest())
    return server


def test_it_is_downloaded_once_and_decoded_once(offered: Any, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    told: list[int] = []
    for train, count in ((True, 15), (False, 3), (True, 15)):
        made = Cifar10.download(
            folder, train=train, url=offered.url, progress=lambda done, total: told.append(done)
        )
        assert len(made) == count
    assert offered.requests == [None]
    assert told[-1] == cifar.SIZE
    (folder / "cifar-10-binary.tar.gz").unlink()  # no longer needed
    assert made.labels.tolist() == Cifar10.download(folder).labels.tolist()


def test_stored_images_that_are_damaged_are_made_anew(offered: Any, tmp_path: Path) -> None:
    first = Cifar10.download(tmp_path, url=offered.url, progress=lambda *_: None)
    kept = tmp_path / "cifar10.tensors"
    content = bytearray(kept.read_bytes())
    content[2000] ^= 1
    kept.write_bytes(content)
    with pytest.warns(UserWarning, match=r"is damaged.* It is made anew now"):
        again = Cifar10.download(tmp_path, url=offered.url)
    assert torch.equal(first.images, again.images)
    assert stored.about(kept) == cifar.SHA256
    assert torch.equal(Cifar10.download(tmp_path, url=offered.url).images, first.images)


def test_the_archive_is_what_its_authors_publish() -> None:
    assert cifar.URL == "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert len(bytes.fromhex(cifar.SHA256)) == 32
    assert tuple(sorted(CLASSES)) == CLASSES


# JPEGs


def same_as_made(made: Cifar10, *, train: bool) -> None:
    assert made.labels.tolist() == [label for label in range(10) for _ in range(2 if train else 1)]
    middles = made.images[:, :, 16, 16].int()
    greens = [0, 100] * 10 if train else [200] * 10
    wanted = torch.tensor([[20 * int(y), g, 0] for y, g in zip(made.labels, greens, strict=True)])
    assert int((middles - wanted).abs().max()) <= 4


@pytest.mark.parametrize("train", [True, False])
def test_jpegs_are_read_from_a_tar(jpegs: Path, train: bool) -> None:
    same_as_made(Cifar10.from_jpegs(jpegs, train=train), train=train)


@pytest.mark.parametrize("train", [True, False])
def test_jpegs_are_read_from_a_folder(tmp_path: Path, train: bool) -> None:
    for name, content in jpeg_files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    same_as_made(Cifar10.from_jpegs(tmp_path, train=train), train=train)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_of_jpegs_that_is_cut_anywhere_is_refused(
    tmp_path: Path, tar: Any, mode: str
) -> None:
    chance = random.Random(0)
    files = {
        f"{split}/{name}/0000.jpg": chance.randbytes(700)
        for split in ("train", "test")
        for name in CLASSES
    }
    whole, path = tar(files, mode), tmp_path / "it.tar"
    path.write_bytes(whole)
    assert len(in_tar(path, CLASSES)["test"].names) == 10
    end = len(files) * (512 + 1024) + 512 if mode == "w" else len(whole)  # then zeros alone
    for length in (
        1,
        3000,
        *range(512, end, 211),
        *range(1536 * 11, 1536 * 11 + 600, 100),
        end - 1,
    ):
        path.write_bytes(whole[: min(length, end - 1)])
        with pytest.raises(ImageError, match=r"as a tar: .* Fetch it again;"):
            in_tar(path, CLASSES)
    path.write_bytes(whole[: end - 1])
    with pytest.raises(
        ImageError, match=r"it\.tar cannot be read as a tar: unexpected end of data"
    ):
        in_tar(path, CLASSES)


def test_one_block_of_zeros_ends_a_tar_and_none_does_not(tmp_path: Path, tar: Any) -> None:
    path, whole = tmp_path / "it.tar", tar({"train/cat/0.jpg": b"a", "test/cat/0.jpg": b"b"}, "w")
    path.write_bytes(whole[: 4 * 512 + 512])
    assert in_tar(path, CLASSES)["test"].read(0) == b"b"
    path.write_bytes(whole[: 4 * 512])
    with pytest.raises(ImageError, match="unexpected end of data"):
        in_tar(path, CLASSES)


def test_what_is_damaged_or_lies_behind_the_end_of_a_tar_is_not_left_out(
    tmp_path: Path, tar: Any
) -> None:
    path, whole = tmp_path / "it.tar", tar({"train/cat/0.jpg": b"a", "test/cat/0.jpg": b"b"}, "w")
    path.write_bytes(whole + whole)
    with pytest.raises(ImageError, match="more follows after its end"):
        in_tar(path, CLASSES)
    path.write_bytes(whole[:1100] + b"?" + whole[1101:])
    with pytest.raises(ImageError, match="as a tar: bad checksum"):
        in_tar(path, CLASSES)


def test_folders_around_the_splits_do_not_matter(tmp_path: Path, tar: Any) -> None:
    path = tmp_path / "it.tar"
    files = {f"some/folder/{name}": content for name, content in jpeg_files().items()}
    path.write_bytes(tar(files, "w"))
    same_as_made(Cifar10.from_jpegs(path), train=True)


def test_jpegs_are_decoded_once(jpegs: Path, tmp_path: Path, monkeypatch: Any) -> None:
    cache = tmp_path / "cache"
    same_as_made(Cifar10.from_jpegs(jpegs, cache=cache), train=True)
    monkeypatch.setattr(cifar, "decoded", None)
    same_as_made(Cifar10.from_jpegs(jpegs, cache=cache), train=True)
    same_as_made(Cifar10.from_jpegs(jpegs, cache=cache, train=False), train=False)


def test_another_archive_is_decoded_again(jpegs: Path, tmp_path: Path, tar: Any) -> None:
    first = Cifar10.from_jpegs(jpegs, cache=tmp_path / "cache")
    jpegs.write_bytes(tar(jpeg_files() | {"train/cat/0000.jpg": jpeg((9, 9, 250))}, "w:xz"))
    second = Cifar10.from_jpegs(jpegs, cache=tmp_path / "cache")
    assert not torch.equal(first.images, second.images)


def test_a_changed_folder_is_decoded_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name, content in jpeg_files().items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    assert len(Cifar10.from_jpegs(source, cache=tmp_path / "cache")) == 20
    (source / "train/cat/0002.jpg").write_bytes(jpeg((1, 2, 3)))
    assert len(Cifar10.from_jpegs(source, cache=tmp_path / "cache")) == 21


def test_a_change_behind_a_link_is_decoded_again(tmp_path: Path) -> None:
    source, elsewhere = tmp_path / "source", tmp_path / "elsewhere"
    for name, content in jpeg_files().items():
        (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / name).write_bytes(content)
    source.mkdir()
    for split in ("train", "test"):
        (source / split).symlink_to(elsewhere / split)
    assert len(Cifar10.from_jpegs(source, cache=tmp_path / "cache")) == 20
    (elsewhere / "train/cat/0002.jpg").write_bytes(jpeg((1, 2, 3)))
    assert len(Cifar10.from_jpegs(source, cache=tmp_path / "cache")) == 21
    (source / ".lock").symlink_to("nowhere")  # what is no image is not looked at
    assert len(Cifar10.from_jpegs(source, cache=tmp_path / "cache")) == 21


def test_what_was_kept_of_a_tar_before_its_end_was_looked_for_is_not_taken(
    jpegs: Path, tmp_path: Path
) -> None:
    digest = hashlib.sha256(jpegs.read_bytes()).hexdigest()  # what it was called by then
    made = {
        f"{split}_{name}": torch.zeros(shape, dtype=torch.uint8)
        for split in ("train", "test")
        for name, shape in {"images": (1, *cifar.SHAPE), "labels": (1,)}.items()
    }
    stored.write(tmp_path / f"cifar10-jpegs-{digest[:16]}.tensors", made, about=digest)
    same_as_made(Cifar10.from_jpegs(jpegs, cache=tmp_path), train=True)


def test_another_kind_of_archive_is_to_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "it.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in jpeg_files().items():
            packed.writestr(name, content)
    with pytest.raises(ImageError, match="give the folder it is unpacked to"):
        Cifar10.from_jpegs(path)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"train/cat/0002.jpg": b""}, r"cat/0002\.jpg is empty"),
        ({"train/cat/0002.jpg": jpeg((0, 0, 0))[:300]}, r"cat/0002\.jpg cannot be decoded"),
        ({"train/cat/0002.jpg": jpeg((0, 0, 0), 40)}, r"cat/0002\.jpg is \(3, 40, 40\)"),
        ({"train/cat/0002.jpg": bytes(2 << 20)}, r"cat/0002\.jpg in .* 2097152 bytes"),
        ({"train/cow/0000.jpg": jpeg((0, 0, 0))}, "a class 'cow'"),
    ],
)
def test_jpegs_that_are_wrong_are_named(
    tmp_path: Path, tar: Any, more: dict[str, bytes], reason: str
) -> None:
    path = tmp_path / "it.tar.gz"
    path.write_bytes(tar(jpeg_files() | more))
    with pytest.raises(ImageError, match=reason):
        Cifar10.from_jpegs(path)


def test_a_source_that_is_missing_or_something_else_is_named(tmp_path: Path, tar: Any) -> None:
    with pytest.raises(UsageError, match="nowhere is not there"):
        Cifar10.from_jpegs(tmp_path / "nowhere")
    with pytest.raises(ImageError, match=r"has no train/CLASS/\*\.jpg"):
        Cifar10.from_jpegs(tmp_path)
    path = tmp_path / "it.tar"
    path.write_bytes(b"no tar")
    with pytest.raises(ImageError, match="cannot be read as a tar"):
        Cifar10.from_jpegs(path)
    path.write_bytes(tar({"train/cat/0.jpg": jpeg((0, 0, 0))}, "w"))
    with pytest.raises(ImageError, match="has no test/CLASS"):
        Cifar10.from_jpegs(path)
