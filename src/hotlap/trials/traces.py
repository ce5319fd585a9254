"""What torch.profiler saw of a few steps, as a file that Perfetto and TensorBoard open."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path

from hotlap import records
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
    with trace.open("rb") as source, records.writing(target) as file:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6) as packed:
                shutil.copyfileobj(source, packed, 1 << 20)
        else:
            shutil.copyfileobj(source, file, 1 << 20)
