"""The disk tier: packed samples in two files that survive restarts and kills.

`data` holds the samples one after another, `index` one entry for each: where, how long, the
checksum of the sample and one of the entry itself. An entry is written after its sample; a writer
that is killed in between leaves a hole and nothing else. What is read is checked against its sum:
a sample that is damaged is forgotten, said once, and written anew.

Several processes may fill at once: samples are written under a lock the kernel releases with its
holder. All that is written is paid from the budget; of what an earlier run left, what a smaller
budget has no room for is removed. A full disk ends the filling, not the training.

Nothing is mapped: a file that someone cuts off is read short, where a mapped one would kill its
reader.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import struct
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENTRY = struct.Struct("<QQII")  # where, how long, sum of the sample, sum of this entry
BODY = struct.Struct("<QQI")
SIGN = 2048  # bytes for what the files hold, at most
SCHEMA = 2
FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Shelf:
    def __init__(
        self,
        folder: Path,
        samples: int,
        budget: int,
        *,
        facts: dict[str, Any],
        tell: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self.samples = samples
        self.budget = budget
        self.full = False
        self._sign = _signed({"schema": SCHEMA, "samples": samples, **facts})
        self._tell = tell
        self._damaged = 0
        self._open()

    def _open(self) -> None:
        """Raises OSError where the folder cannot be written or has no room for the index."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._threads, self._pid = threading.Lock(), os.getpid()
        self._opened: list[int] = []
        weakref.finalize(self, _close, self._opened)
        self._lock = self._file("lock")
        with self._locked():
            self._data, self._index = self._files()
            if not self._is_ours():
                self._begin_anew()
            self._make_room()
            size = max(1, ENTRY.size * self.samples)
            os.posix_fallocate(self._index, 0, size)  # later there may be no room for it
            os.ftruncate(self._index, size)

    def _make_room(self) -> None:
        """What lies behind the end of the budget is forgotten; what lies before it stays."""
        end, lies = self.budget - table_bytes(self.samples), os.fstat(self._data).st_size
        if lies <= max(0, end):
            return
        removed = 0
        for index in range(self.samples):
            where, length, _, _ = ENTRY.unpack(self._entry(index))
            if length and where + length > end:
                self._write(self._index, bytes(ENTRY.size), ENTRY.size * index)
                removed += 1
        os.ftruncate(self._data, max(0, end))
        self._tell(
            f"{self.folder} held {lies:,} bytes of samples, more than a budget of {self.budget:,} "
            f"has room for; {removed:,} samples were removed"
        )

    def _files(self) -> tuple[int, int]:
        return self._file("data"), self._file("index")

    def _file(self, name: str) -> int:
        descriptor = os.open(self.folder / name, FLAGS, 0o644)
        self._opened.append(descriptor)
        return descriptor

    def _begin_anew(self) -> None:
        """With other files: who has the old ones mapped must not find them cut off."""
        for descriptor in (self._data, self._index):
            self._opened.remove(descriptor)
            os.close(descriptor)
        for name in ("data", "index"):
            os.unlink(self.folder / name)
        self._data, self._index = self._files()
        draft = self.folder / f"facts.json.{os.getpid()}"
        draft.write_bytes(self._sign)
        os.replace(draft, self.folder / "facts.json")

    def _is_ours(self) -> bool:
        """Whether the files hold what they say, and nothing stood here before."""
        sign = self.folder / "facts.json"
        try:
            found = sign.read_bytes()
        except FileNotFoundError:
            if os.fstat(self._data).st_size:
                self._tell(f"{self.folder} held files of something else; the cache is begun anew")
            return False
        except OSError:
            found = b""
        if found == self._sign and os.fstat(self._index).st_size in (0, ENTRY.size * self.samples):
            return True
        self._tell(f"the cache in {self.folder} is damaged or of something else; it is begun anew")
        return False

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("_data", "_index", "_lock", "_opened", "_threads", "_pid"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    # Reading ---------------------------------------------------------------------------------

    def get(self, index: int) -> bytes | None:
        """The packed sample as it was put there; None if it is not, or is damaged."""
        packed = self._sound(index)
        if packed is None and self.has(index):
            with self._locked():  # another process may have been writing it just now
                packed = self._sound(index)
                if packed is None and self.has(index):
                    self._forget(index)
        return packed

    packed = get

    def _sound(self, index: int) -> bytes | None:
        raw = self._entry(index)
        where, length, checksum, own = ENTRY.unpack(raw)
        if length and _own_sum(index, raw[: BODY.size]) == own:
            packed = self._read(where, length)
            if len(packed) == length and zlib.crc32(packed) == checksum:
                return packed
        return None

    def _entry(self, index: int) -> bytes:
        """Empty where the file ends before it, or cannot be read."""
        try:
            return os.pread(self._index, ENTRY.size, ENTRY.size * index).ljust(ENTRY.size, b"\0")
        except OSError:
            return bytes(ENTRY.size)

    def _read(self, where: int, length: int) -> bytes:
        if where + length > os.fstat(self._data).st_size:
            return b""
        try:
            return os.pread(self._data, length, where)
        except OSError:  # a disk that fails
            return b""

    def forget(self, index: int) -> None:
        """What is there cannot be used; it will be written anew."""
        with self._locked():
            self._forget(index)

    def _forget(self, index: int) -> None:
        self._write(self._index, bytes(ENTRY.size), ENTRY.size * index)
        self._damaged += 1
        if self._damaged == 1:
            self._tell(f"sample {index} in {self.folder} is damaged; what is, is made anew")

    def clear(self) -> None:
        """What is there is wrong: nobody finds it any more, now or after a restart."""
        with self._locked():
            os.ftruncate(self._index, 0)
            os.ftruncate(self._index, max(1, ENTRY.size * self.samples))
            os.ftruncate(self._data, 0)

    def has(self, index: int) -> bool:
        return any(self._entry(index)[8:16])

    @property
    def used(self) -> int:
        files = (self._data, self._index)
        return len(self._sign) + sum(os.fstat(file).st_size for file in files)

    def count(self) -> int:
        return sum(self.has(index) for index in range(self.samples))

    # Filling ---------------------------------------------------------------------------------

    def put(self, index: int, packed: bytes) -> bool:
        if self.full or not packed or self.has(index):
            return False
        try:
            with self._locked():
                return self._put(index, packed)
        except OSError as problem:
            if problem.errno not in FULL:
                raise
            self.full = True
            self._tell(f"the disk of {self.folder} is full; the cache stays as it is")
            return False

    def _put(self, index: int, packed: bytes) -> bool:
        """With the lock: who else wants to write it comes later, and finds it there."""
        where = os.fstat(self._data).st_size
        if self.has(index) or where + len(packed) + table_bytes(self.samples) > self.budget:
            return False
        os.posix_fallocate(self._data, where, len(packed))  # a full disk says so here
        self._write(self._data, packed, where)
        body = BODY.pack(where, len(packed), zlib.crc32(packed))
        entry = body + struct.pack("<I", _own_sum(index, body))
        self._write(self._index, entry, ENTRY.size * index)
        return True

    def _write(self, descriptor: int, content: bytes, where: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(descriptor, view, where)
            view, where = view[written:], where + written

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._pid != os.getpid():  # a thread of the parent may have held it when we were forked
            self._threads, self._pid = threading.Lock(), os.getpid()
        with self._threads:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._lock, fcntl.LOCK_UN)


def table_bytes(samples: int) -> int:
    """What is taken before there is a sample."""
    return max(1, ENTRY.size * samples) + SIGN


def _signed(facts: dict[str, Any]) -> bytes:
    """As text, or as its sum where it is long."""
    text = json.dumps(facts, indent=1).encode()
    if len(text) <= SIGN:
        return text
    told = {"schema": SCHEMA, "samples": facts["samples"], "sum": hashlib.sha256(text).hexdigest()}
    return json.dumps(told, indent=1).encode()


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _own_sum(index: int, body: bytes) -> int:
    """Of an entry in its place: in another it is worth nothing."""
    return zlib.crc32(body, index & 0xFFFFFFFF)
