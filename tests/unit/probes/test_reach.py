"""Whether a process is one that hotlap started: the one that starts the command stands above it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.probes import reach
from hotlap.probes.reach import Above


def above(supervisor: int | None, **other: str) -> Above:
    known = {"boot": reach.this_boot(), "pids": reach.these_pids(), **other}
    return Above(supervisor=supervisor, **known)


def test_a_process_below_the_one_that_starts_commands_is_not_elsewhere() -> None:
    assert not reach.elsewhere(above(os.getpid()), [])
    assert not reach.elsewhere(above(os.getppid()), ["/home/me"])


def test_one_that_has_it_not_above_is() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert reach.elsewhere(above(other.pid), []), "a child is not above"
        other.communicate(b"\n")


def test_another_machine_is_elsewhere_whatever_its_numbers_are() -> None:
    assert reach.elsewhere(above(os.getpid(), boot="another boot"), [])


@pytest.mark.parametrize(
    ("mounted", "elsewhere"),
    [
        ("9 1 0:50 / /home/my\\040work rw - overlay overlay rw", False),
        ("9 1 0:50 / / rw - overlay overlay rw", True),
        ("9 1 0:50 / /home/my\\040work rw - ext4 /dev/vda rw", True),
    ],
)
def test_where_numbers_mean_something_else_the_overlay_decides(
    tmp_path: Path, mounted: str, elsewhere: bool
) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(reach.this_boot())
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[1]")
    (tmp_path / "self/mountinfo").write_text(f"8 1 0:3 / /proc rw - proc proc rw\n{mounted}\n")
    asked = above(os.getpid())
    assert reach.elsewhere(asked, ["/home/my work"], proc=str(tmp_path)) is elsewhere
    assert not reach.elsewhere(asked, [], proc=str(tmp_path)), "without an overlay: as usually"


def test_what_cannot_be_known_is_taken_for_the_usual(tmp_path: Path) -> None:
    assert not reach.elsewhere(above(None), [])
    unknown = Above(supervisor=123_456_789, boot="", pids="")
    assert not reach.elsewhere(unknown, ["/home/me"], proc=str(tmp_path))


def test_a_process_elsewhere_has_no_overlay() -> None:
    settings = {"supervisor": 0, "boot": "another boot", "protected": ["/home/me"]}
    reach.look(settings)
    assert settings["elsewhere"] is True
    assert settings["protected"] == []
    usual = {
        "supervisor": os.getpid(),
        "boot": reach.this_boot(),
        "pids": reach.these_pids(),
        "protected": ["/home/me"],
    }
    reach.look(usual)
    assert "elsewhere" not in usual
    assert usual["protected"] == ["/home/me"]
