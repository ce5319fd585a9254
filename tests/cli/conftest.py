"""Runs the real command line on the scripts of tests/scripts, each in its own output folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted import SCRIPTS, Answer, clean_environment

# Where what is measured is not the question: a few windows of short steps, or of long ones a few.
ENOUGH = ("--steps", "120", "--seconds", "1.5")


@pytest.fixture
def hotlap(tmp_path: Path) -> Callable[..., Answer]:
    def call(
        *words: str,
        options: tuple[str, ...] = ENOUGH,
        cwd: Path = SCRIPTS,
        stdin: str | None = None,
        out: Path | None = None,
        **extra: str,
    ) -> Answer:
        answer = tmp_path / "answer.json"
        folder = out or tmp_path / "out"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "hotlap", "profile"),
                *("--json", str(answer), "--out", str(folder)),
                *options,
                *words,
            ],
            cwd=cwd,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=240,
            env=clean_environment(**extra),
            check=False,
        )
        result = json.loads(answer.read_text()) if answer.exists() else None
        return Answer(done.returncode, done.stdout, done.stderr, result, folder)

    return call
