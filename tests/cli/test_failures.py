"""Bad commands and bad endings: the right exit code, one clear sentence, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted import SCRIPTS, Answer, clean_environment, expected


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def without_traceback_of_ours(text: str) -> bool:
    return "src/hotlap/" not in text and "site-packages/hotlap" not in text


@pytest.mark.parametrize(
    ("script", "words", "its_own"),
    [
        ("no_torch.py", "without importing torch", ""),
        ("no_step.py", "no optimizer stepped", ""),
        (
            *("crash_early.py", "failed with exit code 1 before a training step"),
            'raise ValueError("bad learning rate")',
        ),
        ("crash_late.py", "failed with exit code 1 after", "RuntimeError: boom at step 12"),
        ("crash_system_exit.py", "failed with exit code 7", ""),
        ("segfault.py", "killed by signal 11 (SIGSEGV)", ""),
    ],
)
def test_a_bad_ending_has_its_code_and_its_sentence(
    script: str, words: str, its_own: str, hotlap: Callable[..., Answer]
) -> None:
    answer = hotlap(script)
    assert answer.code == int(expected(script)["exit"])
    last = answer.errors.strip().splitlines()[-1]
    assert last.startswith("hotlap: ")
    assert words in last
    assert its_own in answer.errors, "the command's own traceback is shown"
    assert without_traceback_of_ours(answer.errors)
    if script == "crash_late.py":
        kept = list(answer.out.glob("*/profile.json"))
        assert len(kept) == 1, "what was measured before the crash is kept"


def test_a_hang_before_the_first_step_ends_at_the_time_limit(
    hotlap: Callable[..., Answer],
) -> None:
    answer = hotlap("hang.py", options=("--timeout", "6"))
    assert answer.code == 4
    assert "No training step was seen in 6 s" in answer.errors
    assert "--timeout" in answer.errors


def test_a_hang_after_some_steps_keeps_what_was_measured(hotlap: Callable[..., Answer]) -> None:
    answer = hotlap("hang_late.py", options=("--timeout", "16"))
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert "stalled" in [finding["rule"] for finding in answer.result["findings"]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nothere.py",), "The script nothere.py is not there"),
        (("no-such-command-here",), "is not on the PATH"),
        (("./README.md",), "cannot be executed"),
        (("--no-such-option", "plain.py"), "--no-such-option"),
        ((), "No command was given. Say what to train"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(
    words: tuple[str, ...], sentence: str, hotlap: Callable[..., Answer]
) -> None:
    answer = hotlap(*words, options=())
    assert answer.code == 2
    assert sentence in " ".join(answer.errors.split())
    assert without_traceback_of_ours(answer.errors)
    assert not list(answer.out.glob("profile-*")), "a wrong request leaves no folder"


@pytest.mark.parametrize(
    ("option", "kind"),
    [("--steps", "a whole number"), ("--seconds", "a number"), ("--timeout", "a number")],
)
def test_limits_must_be_numbers(option: str, kind: str, hotlap: Callable[..., Answer]) -> None:
    answer = hotlap("plain.py", options=(option, "soon"))
    assert answer.code == 2
    assert f"{option} is soon; it must be {kind}." in " ".join(answer.errors.split())


@pytest.mark.parametrize("option", ["--steps", "--seconds", "--timeout"])
def test_limits_must_be_positive(option: str, hotlap: Callable[..., Answer]) -> None:
    answer = hotlap("plain.py", options=(option, "0"))
    assert answer.code == 2
    assert f"{option} is 0" in answer.errors


def test_an_unwritable_output_is_told_before_the_run(tmp_path: Path) -> None:
    def call(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hotlap", "profile", *options, "plain.py"],
            cwd=SCRIPTS,
            capture_output=True,
            text=True,
            check=False,
            env=clean_environment(),
        )

    for options, words in (
        (("--json", str(tmp_path / "no" / "such.json")), "is not there"),
        (("--json", str(tmp_path)), "is a folder"),
        (("--json", "/proc/answer.json"), "cannot be written"),
        (("--out", "/proc/runs"), "results cannot be written"),
    ):
        done = call(*options)
        assert done.returncode == 2, done.stderr
        assert words in " ".join(done.stderr.split())
        assert without_traceback_of_ours(done.stderr)


def test_ctrl_c_ends_the_command_and_keeps_what_was_measured(tmp_path: Path) -> None:
    pid_file = tmp_path / "orphan.pid"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "hotlap", "profile", "--seconds", "120", "--steps", "1000000"),
            *("--out", str(tmp_path / "out"), "checkpointing.py"),
        ],
        cwd=SCRIPTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(ORPHAN_PID_FILE=str(pid_file)),
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("out/*/baseline/records/*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    record = next(iter(tmp_path.glob("out/*/baseline/records/*.json")))
    while '"bare"' not in record.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    trainer = int(record.stem)
    assert alive(trainer)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)

    assert process.returncode == 130
    assert "Interrupted after" in errors
    assert not alive(trainer)
    assert list(tmp_path.glob("out/*/profile.json")), "what was measured is kept"


def test_a_detached_process_of_the_command_does_not_outlive_the_trial(
    hotlap: Callable[..., Answer], tmp_path: Path
) -> None:
    pid_file = tmp_path / "orphan.pid"
    answer = hotlap("orphan.py", ORPHAN_PID_FILE=str(pid_file))
    assert answer.code == 0, answer.errors
    assert not alive(int(pid_file.read_text()))


def test_killing_hotlap_kills_the_command(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "hotlap", "profile", "--seconds", "120", "--steps", "1000000"),
            *("--out", str(tmp_path / "out"), "workers_fork.py"),
        ],
        cwd=SCRIPTS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("out/*/baseline/records/*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    trainer = int(next(iter(tmp_path.glob("out/*/baseline/records/*.json"))).stem)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while alive(trainer):
        assert time.monotonic() < deadline, "the command went on without hotlap"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("train.py", "--epochs", "3"), "hotlap tune train.py --epochs 3"),
        (("tnue", "train.py"), "Did you mean tune?"),
    ],
)
def test_a_forgotten_or_misspelt_verb_is_told(words: tuple[str, ...], text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 2
    assert text in " ".join(done.stderr.split())
