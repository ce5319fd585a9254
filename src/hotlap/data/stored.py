"""Tensors in a file that is read without running anything: bytes, a JSON header, checksums.

    8 bytes    "hotlap-1"
    8 bytes    length of the header, little-endian
    16 bytes   BLAKE2b of the header
    header     JSON: {"about": ..., "tensors": {name: {"shape", "offset", "blake2b"}}}
    tensors    uint8, row by row; an offset counts from the end of the header

All values are uint8, so no byte order has to be known. A file is written under another name and
then renamed: it is whole or not there.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import math
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from hotlap.errors import UsageError

MAGIC = b"hotlap-1"
START = struct.Struct("<8sQ16s")
MOST_HEADER = 1 << 20


class StoredError(UsageError):
    """A file of tensors that cannot be written, or is damaged; the message names it."""


def write(path: Path, tensors: Mapping[str, Any], *, about: str = "") -> None:
    """`about` says what the tensors were made from, for whoever finds the file later."""
    parts, described, offset = [], {}, 0
    for name, tensor in tensors.items():
        if tensor.dtype != torch.uint8:
            raise TypeError(f"{name} is {tensor.dtype}; only uint8 is stored")
        part = tensor.detach().cpu().contiguous()
        described[name] = {
            "shape": list(part.shape),
            "offset": offset,
            "blake2b": _digest(_bytes(part)).hex(),
        }
        offset += part.numel()
        parts.append(part)
    header = json.dumps({"about": about, "tensors": described}).encode()
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(START.pack(MAGIC, len(header), _digest(header)) + header)
            for part in parts:
                file.write(_bytes(part))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as problem:
        raise StoredError(f"{path} cannot be written: {problem.strerror}.") from problem
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def about(path: Path) -> str:
    """What the file was made from; FileNotFoundError if it is not there."""
    with path.open("rb") as file:
        return str(_header(path, file)["about"])


def read(path: Path, names: Iterable[str]) -> dict[str, Any]:
    """The tensors of these names; the others are not even looked at."""
    with path.open("rb") as file:
        header = _header(path, file)
        end = file.tell()
        return {name: _tensor(path, file, header, end, name) for name in names}


def _header(path: Path, file: Any) -> dict[str, Any]:
    start = file.read(START.size)
    if len(start) < START.size or not start.startswith(MAGIC):
        raise StoredError(f"{path} is no file of tensors. Delete it, and it is made anew.")
    _, length, digest = START.unpack(start)
    header = file.read(length) if length <= MOST_HEADER else b""
    if _digest(header) != digest:
        raise _damaged(path)
    read: dict[str, Any] = json.loads(header)
    return read


def _tensor(path: Path, file: Any, header: dict[str, Any], end: int, name: str) -> Any:
    described = header["tensors"].get(name)
    if described is None:
        raise StoredError(f"{path} has no tensor {name!r}. Delete it, and it is made anew.")
    shape, offset = described["shape"], end + described["offset"]
    if offset + math.prod(shape) > os.fstat(file.fileno()).st_size:  # before memory is taken for it
        raise _damaged(path)
    tensor = torch.empty(math.prod(shape), dtype=torch.uint8)
    file.seek(offset)
    held = _bytes(tensor)
    if file.readinto(held) != len(held) or _digest(held).hex() != described["blake2b"]:
        raise _damaged(path)
    return tensor.view(shape)


def _damaged(path: Path) -> StoredError:
    return StoredError(f"{path} is damaged: its checksum is wrong. Delete it, and it is made anew.")


def _bytes(tensor: Any) -> memoryview:
    """A tensor's own memory; torch has no other way that needs no numpy."""
    memory: Any = (ctypes.c_uint8 * tensor.numel()).from_address(tensor.data_ptr())
    memory.owner = tensor  # lives as long as the view does
    return memoryview(memory).cast("B")


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
