"""The tests that need a GPU can be collected without one: nobody notices otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_they_import_and_ask_for_is_there() -> None:
    words = ["-m", "pytest", "--setup-plan", "-q", "-p", "no:cacheprovider", "tests/gpu"]
    asked = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert asked.returncode == 0, asked.stdout + asked.stderr
