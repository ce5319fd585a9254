"""Results whose reader goes end quietly, with a code of their own; text of others is only text."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from rich.text import Text

from hotlap.cli import console, streams
from hotlap.errors import CommandFailed
from hotlap.reports import terminal

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
    return process.wait(timeout=200), errors


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


def through_a_shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """hotlap is "$@" in the line."""
    return subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, "-c", ENTRY],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, **variables},
    )


VERBS = ["study --list", "--version", "--help"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_one_that_nobody_reads(verb: str, closed: str) -> None:
    done = through_a_shell(f'"$@" {verb} {closed}')
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_told_in_a_sentence(verb: str, unbuffered: str) -> None:
    done = through_a_shell(f'"$@" {verb} > /dev/full', PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 2
    assert done.stderr == "hotlap: The output cannot be written: No space left on device.\n"


def test_what_an_encoding_cannot_carry_is_written_in_plain_characters() -> None:
    text = ascii("▒ 3 µs → ñ ±0 %")
    show = f"from hotlap.cli import streams, console; streams.prepare(); console.show({text})"
    done = subprocess.run(
        [sys.executable, "-c", show],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
    )
    assert done.stdout == "- 3 us -> ? +-0 %\n"


def test_in_plain_characters_every_phase_has_a_pattern_of_its_own() -> None:
    plain = [pattern.translate(streams.STAND_INS) for _, pattern in terminal.PHASES.values()]
    assert len(set(plain)) == len(plain)
    assert "".join(plain).isascii()


HOSTILE = "a\x1b[31mred\x1b]0;title\x07b\x1bPc\x9b2Jd\x08e"


def test_text_of_others_has_no_power_over_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(console.sys, "stdout", shown)
    monkeypatch.setenv("FORCE_COLOR", "1")
    console.show(Text(HOSTILE, style="green"))
    colours = re.findall(r"\x1b\[[0-9;]*m", shown.getvalue())
    left = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
    assert colours, "hotlap's own colours stay"
    assert "\x1b[31m" not in colours
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in left.strip())
    assert left.startswith("ared␛]0;titleb␛Pc�2Jd")


def test_nor_has_the_end_of_a_commands_output(capsys: pytest.CaptureFixture[str]) -> None:
    console.fail(CommandFailed("It failed.", output=f"{HOSTILE}\n\x1b[1mValueError\x1b[0m: x"))
    told = capsys.readouterr().err
    assert "ValueError: x" in told
    assert "\x1b" not in told
