"""What the tests of the command line share: the scripts and what they say of themselves."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

SCRIPTS = Path(__file__).parents[1] / "scripts"


@dataclass(frozen=True)
class Answer:
    code: int
    output: str
    errors: str
    result: dict[str, Any] | None
    out: Path


def expected(script: str) -> dict[str, str]:
    """What a script says of itself: `# expect: samples=32 unit=optimizer`."""
    text = (SCRIPTS / script).read_text()
    found = re.search(r"^# expect: (.*)$", text, re.MULTILINE)
    return dict(word.split("=", 1) for word in found.group(1).split()) if found else {}


def clean_environment(**extra: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOTLAP")}
    plain["PATH"] = str(Path(sys.executable).parent) + os.pathsep + plain["PATH"]
    return {**plain, **extra}


def alive(word: str) -> list[psutil.Process]:
    """Processes whose command line holds it."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(word in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found
