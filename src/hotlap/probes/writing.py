"""Files in the trial folder: written under another name, then renamed, so never half a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

RECORDS = "records"
PROGRESS = "progress"
SEEN = "seen"


def _write(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(content, allow_nan=False))
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)


def record(folder: Path, pid: int, content: dict[str, Any]) -> None:
    _write(folder / RECORDS / f"{pid}.json", content)


def progress(folder: Path, pid: int, content: dict[str, Any]) -> None:
    _write(folder / PROGRESS / f"{pid}.json", content)


def seen(folder: Path, pid: int, content: dict[str, Any]) -> None:
    """Says that torch was imported here: what tells "no torch" from "no step"."""
    _write(folder / SEEN / f"{pid}.json", content)
