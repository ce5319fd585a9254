"""Results whose reader goes: quiet, with a code of its own; everyone else's codes stay."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENTRY = "from hotlap.cli import main; main()"


def deserted(*words: str) -> tuple[int, str]:
    """Code and errors of hotlap whose stdout nobody reads."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENTRY, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    return process.wait(timeout=60), errors


def test_a_reader_that_is_gone_ends_a_verb_without_a_word() -> None:
    assert deserted("study", "--list") == (141, "")


def test_a_wrong_request_is_told_whoever_reads() -> None:
    code, errors = deserted("profile", "no-such-script.py")
    assert code == 2
    assert "no-such-script.py" in errors


@pytest.mark.parametrize("code", [0, 1, 7])
def test_run_ends_with_the_commands_own_code_whoever_reads(code: int) -> None:
    words = ("run", sys.executable, "-c", f"raise SystemExit({code})")
    assert deserted(*words)[0] == code
