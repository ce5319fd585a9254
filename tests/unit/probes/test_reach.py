"""Whether a process is one that hotlap started: the one that starts the command stands above it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hotlap.probes import reach

HERE = "this boot"


def asked(supervisor: int | None, *, boot: str = HERE, proc: str = "/proc") -> bool:
    return reach.elsewhere(supervisor, HERE, booted=lambda: boot, proc=proc)


def test_a_process_below_the_one_that_starts_commands_is_not_elsewhere() -> None:
    assert not asked(os.getpid())
    assert not asked(os.getppid())


def test_one_that_has_it_not_above_is() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert asked(other.pid), "a child is not above"
        other.communicate(b"\n")


def test_another_machine_is_elsewhere_whatever_its_numbers_are() -> None:
    assert asked(os.getpid(), boot="another boot")


def test_what_cannot_be_known_is_taken_for_the_usual(tmp_path: Path) -> None:
    assert not asked(None)
    assert not asked(123_456_789, proc=str(tmp_path))


def test_a_process_elsewhere_has_no_overlay() -> None:
    settings = {"supervisor": 0, "boot": "another boot", "protected": ["/home/me"]}
    reach.look(settings)
    assert settings["elsewhere"] is True
    assert settings["protected"] == []
    usual = {"supervisor": os.getpid(), "boot": reach.this_boot(), "protected": ["/home/me"]}
    reach.look(usual)
    assert "elsewhere" not in usual
    assert usual["protected"] == ["/home/me"]
