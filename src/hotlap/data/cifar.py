"""CIFAR-10: 60,000 photographs of 32 x 32 pixels in ten classes, in memory as uint8.

The original comes from its authors' page, in the binary version: the Python one is a pickle, and
reading a pickle runs what is in it. Archives are read member by member and never unpacked. What
was decoded is stored beside them (hotlap.data.stored), so that it is done once.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hotlap.data import download, stored
from hotlap.data.cifar_jpegs import Shots, in_folder, in_tar, names_in_folder
from hotlap.data.decoding import ImageError, decoded
from hotlap.data.images import stacked
from hotlap.data.progress import Progress
from hotlap.errors import UsageError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SHAPE = (3, 32, 32)
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
SIZE = 170_052_171
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
RECORD = 1 + 3 * 32 * 32  # the label, then the pixels
MOST_RECORDS = 10_000  # of a file
FILES = {
    "train": tuple(f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("cifar-10-batches-bin/test_batch.bin",),
}
KEPT = b"2"  # one more ends all caches: those of 1 may be of a tar that was cut off
Made = dict[str, Any]  # train_images, train_labels, test_images, test_labels: all uint8


class Cifar10:
    """Labelled uint8 images, held in memory: `images` (N, 3, 32, 32) and `labels` (N)."""

    classes = CLASSES

    def __init__(self, images: Any, labels: Any) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.images[index], int(self.labels[index])

    @classmethod
    def download(
        cls,
        folder: str | os.PathLike[str],
        *,
        train: bool = True,
        url: str = URL,
        progress: Progress | None = None,
    ) -> Cifar10:
        """The original, fetched into `folder` the first time; `url` may be a mirror's.

        `progress(bytes that are there, bytes in all)` is called as it comes; without one, a
        bar is drawn on stderr, or lines where that is no terminal.
        """

        def make() -> Made:
            archive = Path(folder) / "cifar-10-binary.tar.gz"
            download.fetch(url, archive, sha256=SHA256, size=SIZE, progress=progress)
            return _from_binary(archive)

        return cls._of(_kept(Path(folder) / "cifar10.tensors", SHA256, make, train))

    @classmethod
    def from_binary(cls, archive: str | os.PathLike[str], *, train: bool = True) -> Cifar10:
        """From `cifar-10-binary.tar.gz` that is there already; it is decoded each time."""
        made = _from_binary(Path(archive))
        return cls._of({name: made[name] for name in _names(train)})

    @classmethod
    def from_jpegs(
        cls,
        source: str | os.PathLike[str],
        *,
        train: bool = True,
        cache: str | os.PathLike[str] | None = None,
    ) -> Cifar10:
        """From a folder or a tar of `train/CLASS/*.jpg` and `test/CLASS/*.jpg`.

        With `cache`, a folder, the decoded images are stored there and read the next time. The
        pixels of a JPEG are not the original's: compare accuracies only with others from it.
        """
        path = Path(source)
        if not path.exists():
            raise UsageError(f"{path} is not there.")
        shots = in_folder if path.is_dir() else in_tar

        def make() -> Made:
            return _from_jpegs(shots(path, CLASSES))

        if cache is None:
            made = make()
            return cls._of({name: made[name] for name in _names(train)})
        digest = _identity(path)
        kept = Path(cache) / f"cifar10-jpegs-{digest[:16]}.tensors"
        return cls._of(_kept(kept, digest, make, train))

    @classmethod
    def _of(cls, made: Made) -> Cifar10:
        images, labels = made.values()  # of one split
        return cls(images, labels.long())


def _names(train: bool) -> tuple[str, str]:
    split = "train" if train else "test"
    return f"{split}_images", f"{split}_labels"


def _kept(path: Path, source: str, make: Callable[[], Made], train: bool) -> Made:
    """What is stored, if it was made from this source; else it is made and stored."""
    try:
        if stored.about(path) == source:
            return stored.read(path, _names(train))
    except FileNotFoundError:
        pass
    except stored.StoredError as problem:
        warnings.warn(f"{problem} It is made anew now.", stacklevel=4)
    made = make()
    stored.write(path, made, about=source)
    return {name: made[name] for name in _names(train)}


def _from_binary(archive: Path) -> Made:
    found: dict[str, bytes] = {}
    wanted = {name for names in FILES.values() for name in names}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if name in wanted and member.isreg() and member.size <= RECORD * MOST_RECORDS:
                    file = tar.extractfile(member)
                    found[name] = file.read() if file is not None else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError) as problem:
        raise UsageError(f"{archive} cannot be read: {problem}. Fetch it again.") from problem
    missing = sorted(wanted - found.keys())
    if missing:
        raise UsageError(f"{archive} has no {missing[0]}: it is not CIFAR-10's binary version.")
    made: Made = {}
    for split, names in FILES.items():
        records = bytearray(b"".join(found[name] for name in names))
        if not records or len(records) % RECORD:
            raise UsageError(f"{archive} has {len(records)} bytes of {split}: no whole images.")
        rows = torch.frombuffer(records, dtype=torch.uint8).view(-1, RECORD)
        if int(rows[:, 0].max()) >= len(CLASSES):
            raise UsageError(f"{archive} has labels above {len(CLASSES) - 1}: it is not CIFAR-10.")
        made[f"{split}_images"] = rows[:, 1:].reshape(-1, *SHAPE).contiguous()
        made[f"{split}_labels"] = rows[:, 0].contiguous()
    return made


def _from_jpegs(shots: dict[str, Shots]) -> Made:
    made: Made = {}
    for split, (names, labels, read) in shots.items():

        def load(index: int, names: Any = names, read: Any = read) -> Any:
            image = decoded(read(index), names[index])
            if image.shape != SHAPE:
                raise ImageError(f"{names[index]} is {tuple(image.shape)}; CIFAR-10 is {SHAPE}.")
            return image

        made[f"{split}_images"] = stacked(len(names), load, names.__getitem__)
        made[f"{split}_labels"] = torch.tensor(labels, dtype=torch.uint8)
    return made


def _identity(source: Path) -> str:
    """Changes when the images do: of a file its bytes, of a folder its names, sizes and times."""
    digest = hashlib.sha256(KEPT)
    if source.is_dir():
        for name in sorted(names_in_folder(source)):
            state = (source / name).stat()
            digest.update(os.fsencode(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n"))
    else:
        with source.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
