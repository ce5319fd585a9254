"""A folder of images, one subfolder for each class: `root/cat/0001.jpg`.

The names are kept in one tensor of bytes, not in a list: a list of a million strings is copied into
each forked worker, page by page, as their reference counts are touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from hotlap import machine
from hotlap.data import budgets
from hotlap.data.decoding import ImageError, decoded

SUFFIXES = (
    *(b".jpg", b".jpeg", b".png", b".bmp", b".webp", b".gif", b".tif", b".tiff"),
    *(b".ppm", b".pgm"),
)


class Folder:
    """`(image, label)` of each file: uint8 (3, height, width), or what `transform` makes of it.

    Classes are the subfolders by name; a class may have folders of its own. The order is that of
    the names' bytes, the same in every locale. Hidden files and other kinds are left out. With
    `classes=False` it takes all images wherever they lie below, and every label is 0.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        transform: Callable[[Any], Any] | None = None,
        classes: bool = True,
    ) -> None:
        self.root = Path(root)
        self.transform = transform
        there = _classes(os.fsencode(self.root)) if classes else [b""]
        names, labels = [], []
        for label, one in enumerate(there):
            found = _images(os.path.join(os.fsencode(self.root), one))
            names += [os.path.join(one, name) for name in found]
            labels += [label] * len(found)
        self.classes = tuple(map(os.fsdecode, there)) if classes else ()
        self.labels = torch.tensor(labels)
        self._names = torch.frombuffer(bytearray(b"".join(names)), dtype=torch.uint8)
        self._ends = torch.tensor([0, *map(len, names)]).cumsum(0)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        held = f"{len(self):,} images, {len(self.classes)} classes"
        return f"Folder({str(self.root)!r}: {held})"

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = self.image(index)
        label = int(self.labels[index])
        return (image if self.transform is None else self.transform(image)), label

    def path(self, index: int) -> Path:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        start, end = self._ends[at : at + 2].tolist()
        return self.root / os.fsdecode(bytes(self._names[start:end].tolist()))

    def image(self, index: int) -> Any:
        """The image as it is, without the transform."""
        path = self.path(index)
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise ImageError(f"{path} cannot be read: {problem.strerror}.") from problem
        return decoded(data, str(path))

    def load_all(self, *, size: int | None = None, threads: int | None = None) -> tuple[Any, Any]:
        """All images in one uint8 tensor (N, 3, height, width), and the labels.

        Without `size` they must all have one. With it, each is scaled until its shorter side has
        `size` pixels, and its middle is taken. The transform is not applied.
        """

        def load(index: int) -> Any:
            image = self.image(index)
            return image if size is None else middle(image, size)

        def name(index: int) -> str:
            return str(self.path(index))

        return stacked(len(self), load, name, threads=threads), self.labels.clone()


def stacked(
    count: int,
    load: Callable[[int], Any],
    name: Callable[[int], str],
    *,
    threads: int | None = None,
) -> Any:
    """What `load` gives for 0 to count - 1, in one tensor; decoders work beside each other."""
    first = load(0)
    needed, free = first.numel() * count, budgets.ram()
    if needed > free:
        raise ImageError(
            f"{count} images of {tuple(first.shape)} need {needed / 1e9:.1f} GB of memory, and"
            f" {free / 1e9:.1f} GB are free. Read them one by one, or make them smaller."
        )
    together = torch.empty(count, *first.shape, dtype=torch.uint8)

    def fill(index: int) -> None:
        image = load(index)
        if image.shape != first.shape:
            raise ImageError(
                f"{name(index)} is {tuple(image.shape)} and {name(0)} is {tuple(first.shape)}:"
                " images of different sizes make no tensor. Give a size."
            )
        together[index] = image

    with ThreadPoolExecutor(threads or max(1, int(machine.cores()))) as pool:
        for _ in pool.map(fill, range(count)):
            pass
    return together


def middle(image: Any, size: int) -> Any:
    """A square of `size` pixels from the middle of an image, scaled to fit."""
    height, width = image.shape[-2:]
    high, wide = (-(-side * size // min(height, width)) for side in (height, width))
    if (high, wide) != (height, width):
        image = torch.nn.functional.interpolate(
            image[None], (high, wide), mode="bilinear", antialias=True, align_corners=False
        )[0]
    top, left = (high - size) // 2, (wide - size) // 2
    return image[:, top : top + size, left : left + size]


def _classes(root: bytes) -> list[bytes]:
    try:
        with os.scandir(root) as entries:
            there = [entry for entry in entries if not entry.name.startswith(b".")]
    except OSError as problem:
        raise ImageError(f"{os.fsdecode(root)} cannot be listed: {problem.strerror}.") from problem
    found = sorted(entry.name for entry in there if entry.is_dir())
    if not found:
        held = "is empty" if not there else "has no subfolders"
        raise ImageError(
            f"{os.fsdecode(root)} {held}; each class needs a folder: {os.fsdecode(root)}/cat/1.jpg"
        )
    return found


def _images(folder: bytes) -> list[bytes]:
    """Names below the folder, as seen from there."""

    def refuse(problem: OSError) -> None:
        raise ImageError(f"{os.fsdecode(problem.filename)} cannot be listed: {problem.strerror}.")

    found = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [one for one in folders if not one.startswith(b".")]
        below = os.path.relpath(parent, folder) if parent != folder else b""
        for name in names:
            if name.lower().endswith(SUFFIXES) and not name.startswith(b"."):
                found.append(os.path.join(below, name))
    if not found:
        raise ImageError(
            f"{os.fsdecode(folder)} has no images. Remove it, or put some there:"
            f" {os.fsdecode(b' '.join(SUFFIXES))}"
        )
    return sorted(found)
