"""Files in the trial folder: written under another name, then renamed, so never half a file."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

RECORDS = "records"
PROGRESS = "progress"
SEEN = "seen"
TRACES = "traces"


def number() -> int:
    """This process's among all of a trial: on several nodes two may have the same pid."""
    return _FIRST + os.getpid()


def first(task: str | None) -> int:
    """Where the numbers of a task of srun begin; a pid has 22 bits at most."""
    return int(task) << 22 if task is not None and task.isdigit() else 0


_FIRST = first(os.environ.get("SLURM_PROCID"))  # once: scripts may change what is there


def write(path: Path, content: dict[str, Any]) -> None:
    """Never raises: it is called from within the user's training step."""
    temporary = path.with_name(f".{path.name}.{number()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(content, default=_plain))
        temporary.replace(path)
    except (OSError, ValueError, TypeError, RecursionError):
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """What a script passed where a plain number is usual: numpy's, torch's, or anything."""
    try:
        return value.item()
    except Exception:
        return str(value)


def record(folder: Path, pid: int, content: dict[str, Any]) -> None:
    write(folder / RECORDS / f"{pid}.json", content)


def progress(folder: Path, pid: int, content: dict[str, Any]) -> None:
    write(folder / PROGRESS / f"{pid}.json", content)


def trace(folder: Path, pid: int) -> Path:
    """Where torch.profiler writes what it saw."""
    return folder / TRACES / f"{pid}.json"


def seen(folder: Path, pid: int, content: dict[str, Any]) -> None:
    """Says that torch was imported here: what tells "no torch" from "no step"."""
    write(folder / SEEN / f"{pid}.json", content)
