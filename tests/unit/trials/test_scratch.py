"""Temporary folders go with those who use them, killed or not, and with nobody else."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotlap.trials import scratch

# Makes a folder with something in it, and tells its name.
MAKES = """
import os, subprocess, sys, tempfile
tempfile.tempdir = sys.argv[1]
from hotlap.trials import scratch
path = scratch.make()
(path / "kernel.so").write_text("compiled")
"""
TELLS = "print(path, flush=True); sys.stdin.read()\n"
LENDS = """
words = [sys.executable, "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
lent = subprocess.Popen(words, pass_fds=scratch.locks(), **pipes)
lent.stdout.readline()
print(path, lent.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


Start = Callable[[str], tuple[subprocess.Popen[str], list[str]]]


@pytest.fixture
def start(system: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def begin(code: str) -> tuple[subprocess.Popen[str], list[str]]:
        process = subprocess.Popen(
            [sys.executable, "-c", MAKES + code, str(system)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().split()

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def test_a_folder_is_there_until_it_is_removed() -> None:
    path = scratch.make()
    assert path.is_dir()
    assert len(scratch.locks()) == 1
    scratch.remove(path)
    assert not path.exists()
    assert scratch.locks() == ()


def test_what_a_killed_process_left_is_removed_by_the_next_one(start: Start) -> None:
    process, (name,) = start(TELLS)
    process.kill()
    process.wait()
    assert Path(name, "kernel.so").exists()
    scratch.remove(scratch.make())
    assert not Path(name).exists()


def test_what_a_living_process_uses_stays(start: Start) -> None:
    _, (name,) = start(TELLS)
    own = scratch.make()
    scratch.remove(scratch.make())
    assert Path(name, "kernel.so").exists()
    assert own.is_dir()
    scratch.remove(own)


def test_what_a_process_uses_whose_parent_was_killed_stays(start: Start) -> None:
    """The command that still saves its last checkpoint, say."""
    process, (name, pid) = start(LENDS)
    handle = os.pidfd_open(int(pid))
    # Killed, the parent closes the pipe and the other one would end by itself: stop it there.
    os.kill(int(pid), signal.SIGSTOP)
    process.kill()
    process.wait()
    scratch.remove(scratch.make())
    assert Path(name, "kernel.so").exists()
    os.kill(int(pid), signal.SIGKILL)
    assert _ended(handle)
    scratch.remove(scratch.make())
    assert not Path(name).exists()


def _ended(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(30_000))


def test_what_is_of_another_user_or_another_program_stays(
    system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = system / (scratch.PREFIX + "foreign")
    others = [system / "hotlap-bench-x", system / "results"]
    for folder in (foreign, *others):
        folder.mkdir()
    real = os.getuid()
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: real + 1)
        scratch.remove(scratch.make())
    assert foreign.exists()
    scratch.remove(scratch.make())
    assert not foreign.exists()
    assert all(folder.exists() for folder in others)


def test_a_link_is_not_followed(system: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "checkpoint.pt").write_bytes(b"of last night")
    (system / (scratch.PREFIX + "link")).symlink_to(kept)
    scratch.remove(scratch.make())
    assert (kept / "checkpoint.pt").exists()
