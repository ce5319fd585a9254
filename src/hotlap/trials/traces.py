"""What torch.profiler saw of a few steps, as a file that Perfetto and TensorBoard open."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from hotlap.errors import RecordError
from hotlap.records import Rank
from hotlap.trials.folder import TrialFolder


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
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    packed = target.suffix == ".gz"
    try:
        with (
            trace.open("rb") as source,
            gzip.open(unfinished, "wb", 6) if packed else unfinished.open("wb") as copy,
        ):
            shutil.copyfileobj(source, copy, 1 << 20)
        unfinished.replace(os.path.realpath(target))
    except OSError as problem:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise RecordError(f"{target} cannot be written: {problem.strerror}.") from problem
