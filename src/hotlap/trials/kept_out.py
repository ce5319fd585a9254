"""What the bootstrap notes where it could not bring hotlap into a Python of the command."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class KeptOut(NamedTuple):
    why: str
    in_words: bool  # not the end of a traceback
    file: Path


def read(folder: Path) -> KeptOut | None:
    for file in sorted(folder.glob("bootstrap-*.txt")):
        lines = file.read_text().strip().splitlines() or [""]
        return KeptOut(lines[-1], len(lines) == 1, file)
    return None
