"""Nothing the command writes may replace what is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted import SCRIPTS, Answer, clean_environment

NAMES = ("checkpoint.pt", "train.log", "metrics.json")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with last night's results and a script that would overwrite them."""
    folder = tmp_path / "project with spaces, and: odd characters"
    folder.mkdir()
    shutil.copy(SCRIPTS / "checkpointing.py", folder / "train.py")
    for name in NAMES:
        (folder / name).write_text("last night")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".hotlap" not in path.parts
    }


@pytest.fixture
def around(tmp_path: Path) -> Path:
    """What a script reaches that lies outside its folder, as it was last night."""
    for name in ("home/notes.txt", "scratch/best.pt", "outside/last.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("last night")
    return tmp_path


# Each line of these would spoil something, and fails if it does not find what it wrote itself.
AT_HOME = """
from pathlib import Path
notes = Path.home() / "notes.txt"
assert notes.read_text() == "last night"
notes.write_text("tonight")
assert notes.read_text() == "tonight"
"""
ELSEWHERE = """
import shutil, torch
torch.save({{"a": 1}}, {best!r})
assert torch.load({best!r}) == {{"a": 1}}
shutil.copyfile({best!r}, {copy!r})
assert torch.load({copy!r}) == {{"a": 1}}
"""
THROUGH_A_LINK = """
open("ckpts/last.txt", "w").write("tonight")
assert open("ckpts/last.txt").read() == "tonight"
"""


def test_the_folder_and_all_around_it_are_the_same_afterwards(
    hotlap: Callable[..., Answer], project: Path, around: Path
) -> None:
    best, copy = (str(around / "scratch" / name) for name in ("best.pt", "copy.pt"))
    script = project / "train.py"
    script.write_text(
        AT_HOME
        + ELSEWHERE.format(best=best, copy=copy)
        + THROUGH_A_LINK
        + (SCRIPTS / "checkpointing.py").read_text()
    )
    (project / "ckpts").symlink_to(around / "outside")
    (project / "shared").symlink_to("/tmp")
    before = contents(project)
    answer = hotlap("train.py", cwd=project, out=project / ".hotlap", HOME=str(around / "home"))

    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert contents(project) == before
    written = {Path(one["path"]).name for one in answer.result["ending"]["written"]}
    assert written >= set(NAMES), "it did write, into the trial"
    assert not list(answer.out.glob("*/*/writes-*")), "and that went with the trial"
    assert not list(answer.out.glob("*/*/scratch-*"))
    assert (around / "home" / "notes.txt").read_text() == "last night", "home is protected too"
    assert Path(best).read_text() == "last night", "saves outside the covered folders are diverted"
    assert not Path(copy).exists()
    linked = around / "outside" / "last.txt"
    assert linked.read_text() == "last night", "a link leads into the overlay too"
    assert "shared leads to /tmp" in answer.errors
    assert "ckpts" not in answer.errors


def test_keep_keeps_what_was_written(hotlap: Callable[..., Answer], project: Path) -> None:
    before = contents(project)
    answer = hotlap("train.py", cwd=project, options=("--steps", "120", "--keep"))
    assert answer.code == 0, answer.errors
    assert contents(project) == before
    kept = {path.name for path in answer.out.glob("*/*/writes-*/**/*") if path.is_file()}
    assert kept >= set(NAMES)


def test_in_place_opts_out_and_says_what_was_written(
    hotlap: Callable[..., Answer], project: Path
) -> None:
    answer = hotlap("train.py", cwd=project, options=("--steps", "120", "--in-place"))
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert (project / "checkpoint.pt").read_bytes() != b"last night"
    finding = next(f for f in answer.result["findings"] if f["rule"] == "written-in-place")
    assert all(name in finding["evidence"] for name in NAMES)


def test_without_overlays_saves_are_diverted_and_the_rest_is_listed(
    hotlap: Callable[..., Answer], project: Path
) -> None:
    script = project / "train.py"
    script.write_text(
        "from torch.utils.tensorboard import SummaryWriter\n"
        "SummaryWriter('runs/tonight').add_scalar('loss', 1.0, 1)\n" + script.read_text()
    )
    answer = hotlap("train.py", cwd=project, HOTLAP_OVERLAY="0")
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert "cannot be kept apart" in answer.errors
    assert (project / "checkpoint.pt").read_bytes() == b"last night", "torch.save was led away"
    assert not (project / "runs").exists(), "TensorBoard's log too"
    finding = next(f for f in answer.result["findings"] if f["rule"] == "written-in-place")
    assert "metrics.json" in finding["evidence"]
    assert "train.log" in finding["evidence"]
    assert "checkpoint.pt" in " ".join(answer.result["ending"]["diverted"])


def test_a_read_only_folder_can_be_profiled_with_out(
    hotlap: Callable[..., Answer], project: Path
) -> None:
    project.chmod(0o555)
    try:
        answer = hotlap("train.py", cwd=project)
    finally:
        project.chmod(0o755)
    assert answer.code == 0, answer.errors
    assert not (project / ".hotlap").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="without root every test here takes this path")
def test_without_root_a_user_namespace_does_it(project: Path, tmp_path: Path) -> None:
    before = contents(project)
    done = without_mount_rights(
        [*PROFILE, "--out", str(tmp_path / "out"), "--json", str(tmp_path / "a.json"), "train.py"],
        project,
    )
    assert done.returncode == 0, done.stderr
    assert contents(project) == before
    assert json.loads((tmp_path / "a.json").read_text())["ending"]["overlay_refused"] is None


def test_a_system_that_refuses_overlays_is_said_so_before_the_first_trial(
    project: Path, tmp_path: Path
) -> None:
    # Inside a user namespace that allows no further ones, and without the right to mount.
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    done = without_mount_rights(
        [*PROFILE, "--out", str(tmp_path / "out"), "--json", str(tmp_path / "a.json"), "train.py"],
        project,
        before=["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"],
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be kept apart: user namespaces are refused" in " ".join(done.stderr.split())
    assert (project / "checkpoint.pt").read_bytes() == b"last night"


PROFILE = [sys.executable, "-m", "hotlap", "profile", "--steps", "120"]


def without_mount_rights(
    words: list[str], folder: Path, before: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    drop = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    return subprocess.run(
        [*(before or []), *drop, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
    )


def test_a_folder_that_only_the_command_names_is_protected_too(
    hotlap: Callable[..., Answer], project: Path, tmp_path: Path
) -> None:
    (project / "run.sh").write_text('cd "$(dirname "$0")" && exec python train.py\n')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = contents(project)
    answer = hotlap("bash", str(project / "run.sh"), cwd=elsewhere)
    assert answer.code == 0, answer.errors
    assert contents(project) == before
