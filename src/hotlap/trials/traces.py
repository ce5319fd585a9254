"""What torch.profiler saw of a few steps, as a file that Perfetto and TensorBoard open.

The steps themselves stand on a track of their own, under the name by which tools that read such
traces know a step. On the track of the operations they would cut one in two: the mark at which a
step ends stands inside the optimizer's own range.
"""

from __future__ import annotations

import gzip
import json
import mmap
import re
import shutil
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from hotlap import records
from hotlap.records import Rank
from hotlap.trials.folder import TrialFolder

TRACK = "steps"
TRACK_NUMBER = 1 << 23  # beyond all threads of Linux; readers want a number
# Read as text: a trace may have millions of lines. One that is written otherwise stays as it is.
_EVENTS = re.compile(rb'"traceEvents":\s*\[')
_MARK = re.compile(
    rb'"cat": "user_annotation",\s*"name": "hotlap::step",\s*'
    rb'"pid": (?P<pid>\d+),\s*"tid": \d+,\s*"ts": (?P<at>[\d.]+)'
)


def found(folders: Iterable[TrialFolder], ranks: Iterable[Rank]) -> Path | None:
    """That of the first rank; of a second run of a short command where the first has none."""
    order = {rank.pid: number for number, rank in enumerate(ranks)}
    for folder in folders:
        files = {int(file.stem): file for file in folder.traces.glob("[0-9]*.json")}
        if files:
            return files[min(files, key=lambda pid: (order.get(pid, len(order)), pid))]
    return None


def bring(trace: Path, target: Path) -> None:
    """Copies it to where it was asked for, whole or not at all; compressed if it ends in .gz."""
    place, events = _steps(trace)
    with trace.open("rb") as source, records.writing(target) as file:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6) as packed:
                _copy(source, packed, place, events)
        else:
            _copy(source, file, place, events)


def _copy(source: BinaryIO, target: BinaryIO | gzip.GzipFile, place: int, events: bytes) -> None:
    """All of it, with the events put in at their place."""
    target.write(source.read(place))
    target.write(events)
    shutil.copyfileobj(source, target, 1 << 20)


def _steps(trace: Path) -> tuple[int, bytes]:
    """Where in the file its events begin, and those to be put there."""
    if not trace.stat().st_size:
        return 0, b""
    with trace.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        begin = _EVENTS.search(text)
        marks = [(int(one["pid"]), Decimal(one["at"].decode())) for one in _MARK.finditer(text)]
    if begin is None or len(marks) < 2:
        return 0, b""
    return begin.end(), b"".join(_encoded(one) for one in _ranges(marks))


def _ranges(marks: list[tuple[int, Decimal]]) -> Iterator[dict[str, Any]]:
    pid, _ = marks[0]
    where = {"pid": pid, "tid": TRACK_NUMBER}
    yield {"ph": "M", "name": "thread_name", **where, "args": {"name": TRACK}}
    yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": -1}}
    at = sorted(time for _, time in marks)
    for number, (begin, end) in enumerate(pairwise(at), 1):
        name = f"ProfilerStep#{number}"
        when = {"ts": float(begin), "dur": float(end - begin)}
        yield {"ph": "X", "cat": "user_annotation", "name": name, **where, **when}


def _encoded(event: dict[str, Any]) -> bytes:
    return b"\n  " + json.dumps(event).encode() + b","
