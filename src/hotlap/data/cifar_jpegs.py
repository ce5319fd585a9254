"""The JPEG files of CIFAR-10, in a folder or in a tar: `train/cat/0001.jpg`, `test/cat/0001.jpg`.

Both give the same: for each split the names in the order of their bytes, class by class, and a
function that reads one. A tar is read through once, into memory; nothing is unpacked to a disk, so
no name in it can lead anywhere. It is read to its end: a tar that was cut off is no smaller one.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.data.decoding import ImageError

SPLITS = ("train", "test")
SUFFIXES = (".jpg", ".jpeg")
MOST_BYTES = 1 << 20  # of one file: 32 x 32 pixels have 3072
OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    **{b"BZh%d1AY&SY" % level: bz2.open for level in range(1, 10)},
    b"\xfd7zXZ": lzma.open,
    b"\x5d\x00\x00\x80": lzma.open,
}
CUT = "unexpected end of data"
CHUNK = 1 << 16


class Shots(NamedTuple):
    names: list[str]
    labels: list[int]
    read: Callable[[int], bytes]


def in_tar(path: Path, classes: Sequence[str]) -> dict[str, Shots]:
    held: dict[str, bytes] = {}
    try:
        with (
            path.open("rb") as packed,
            _unpacked(packed) as stream,
            tarfile.open(fileobj=stream, mode="r|*", tarinfo=_Member) as tar,
        ):
            for member in tar:
                if member.isreg() and _is_shot(member.name):
                    if member.size > MOST_BYTES:
                        raise ImageError(f"{member.name} in {path} has {member.size} bytes.")
                    file = tar.extractfile(member)
                    held[member.name] = file.read() if file is not None else b""
            _finish(tar.fileobj)
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as problem:
        reason = CUT if isinstance(problem, EOFError) else problem
        raise ImageError(
            f"{path} cannot be read as a tar: {reason}. Fetch it again; of another kind of archive,"
            " give the folder it is unpacked to."
        ) from problem
    return _sorted(path, classes, list(held), held.__getitem__)


def _unpacked(file: Any) -> Any:
    """What is compressed in it: these modules, unlike tarfile, miss the end where it is missing."""
    start = file.peek(10)
    for magic, opened in OPENERS.items():
        if start.startswith(magic):
            return opened(file)
    return file


class _Member(tarfile.TarInfo):
    """Zeros alone are the end; tarfile takes a header that is cut or damaged for it as well."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> Any:
        if len(buf) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError(CUT)
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as problem:
            if not any(buf):
                raise
            raise tarfile.ReadError(str(problem)) from problem


def _finish(stream: Any) -> None:
    """Reads on after the last file: zeros are there, and what compressed them has an end."""
    while chunk := stream.read(CHUNK):
        if any(chunk):
            raise tarfile.ReadError("more follows after its end")


def in_folder(path: Path, classes: Sequence[str]) -> dict[str, Shots]:
    def read(name: str) -> bytes:
        try:
            return (path / name).read_bytes()
        except OSError as problem:
            raise ImageError(f"{path / name} cannot be read: {problem.strerror}.") from problem

    return _sorted(path, classes, names_in_folder(path), read)


def names_in_folder(path: Path) -> list[str]:
    """Also of what is linked to from there."""
    return [
        name
        for split in SPLITS
        for file in (path / split).glob("*/*")
        if _is_shot(name := str(file.relative_to(path)))
    ]


def _is_shot(name: str) -> bool:
    parts = name.split("/")
    return (
        len(parts) >= 3
        and parts[-3] in SPLITS
        and parts[-1].lower().endswith(SUFFIXES)
        and not parts[-1].startswith(".")
    )


def _sorted(
    path: Path, classes: Sequence[str], names: list[str], read: Callable[[str], bytes]
) -> dict[str, Shots]:
    shots = {}
    for split in SPLITS:
        own = sorted((n for n in names if n.split("/")[-3] == split), key=_order)
        if not own:
            raise ImageError(f"{path} has no {split}/CLASS/*.jpg, as in {split}/cat/0001.jpg.")
        unknown = sorted({name.split("/")[-2] for name in own} - set(classes))
        if unknown:
            raise ImageError(
                f"{path} has a class {unknown[0]!r}; CIFAR-10 has {', '.join(classes)}."
            )
        labels = [classes.index(name.split("/")[-2]) for name in own]

        def of(index: int, own: list[str] = own) -> bytes:
            return read(own[index])

        shots[split] = Shots(own, labels, of)
    return shots


def _order(name: str) -> tuple[bytes, ...]:
    return tuple(os.fsencode(part) for part in name.split("/")[-2:])
