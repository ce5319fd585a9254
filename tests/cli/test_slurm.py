"""On a real SLURM cluster of two nodes: studies as jobs, and training that `srun` starts."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import clusters
import pytest
from scripted import SCRIPTS, Answer, alive, clean_environment

pytestmark = pytest.mark.skipif(
    bool(clusters.missing()), reason=clusters.missing() or "it is there"
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with clusters.cluster(tmp_path_factory.mktemp("cluster")) as environment:
        yield environment


def study(folder: Path, slurm: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hotlap", "study", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**slurm, COLUMNS="120"),
    )


def test_a_study_runs_as_jobs_several_at_once(slurm: dict[str, str], tmp_path: Path) -> None:
    options = ("--quick", "--device", "cpu", "--json", "a.json")
    process = study(tmp_path, slurm, "batchnorm", *options, "--slurm", "-c 2", "--jobs", "2")
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    answer = json.loads((tmp_path / "a.json").read_text())
    assert answer["complete"]
    assert {one["status"] for one in answer["cells"]} == {"measured"}
    assert {one["figures"]["node"]["host"] for one in answer["cells"]} == {"one", "two"}
    assert "The runs were spread over 2 machines of one kind." in " ".join(output.split())
    (run,) = (tmp_path / ".hotlap").glob("study-*")
    assert not (run / "alive").exists()
    assert not list((tmp_path / ".hotlap").glob("look-*"))
    assert clusters.emptied(slurm)


def test_ctrl_c_takes_the_jobs_back_and_a_resume_goes_on(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    options = ("workers", "--quick", "--device", "cpu", "--slurm", "--cpus-per-task=1")
    process = study(tmp_path, slurm, *options, "--jobs", "2")
    deadline = time.monotonic() + 120
    while not list((tmp_path / ".hotlap").glob("study-*/*/answer.json")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    _, _, again = errors.strip().partition("go on with hotlap study ")
    assert clusters.emptied(slurm)
    assert not alive(str(tmp_path))
    process = study(tmp_path, slurm, "--json", "a.json", *shlex.split(again))
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert json.loads((tmp_path / "a.json").read_text())["complete"]
    assert len(list((tmp_path / ".hotlap").glob("study-*"))) == 1


def test_what_the_cluster_refuses_is_said_in_a_sentence(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    process = study(tmp_path, slurm, "workers", "--quick", "--slurm", "--partition=nowhere")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "SLURM did not take a job" in errors
    assert "Invalid partition" in errors
    assert not list((tmp_path / ".hotlap").glob("*-*"))


@pytest.mark.parametrize("in_a_script", [False, True])
def test_training_that_srun_starts_is_measured_and_none_of_it_stays(
    slurm: dict[str, str], tmp_path: Path, hotlap: Callable[..., Answer], in_a_script: bool
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    script = f"train_in_slurm_{in_a_script}.py"  # other tests run beside this one
    shutil.copy(SCRIPTS / "checkpointing.py", project / script)
    (project / "checkpoint.pt").write_bytes(b"last night")
    words = ["srun", "--ntasks=1", "--cpus-per-task=2", sys.executable, script]
    if in_a_script:
        (project / "launch.sh").write_text(f"#!/bin/sh\n{' '.join(words)}\n")
        words = ["sh", "launch.sh"]
    answer = hotlap(*words, cwd=project, **slurm)
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert (project / "checkpoint.pt").read_bytes() == b"last night"
    assert answer.errors.count("be kept apart: ") == 1
    rules = [one["rule"] for one in answer.result["findings"]]
    assert "written-in-place" in rules
    assert "busy-machine" not in rules
    assert clusters.emptied(slurm), "srun had the time to give its node back"
    assert not alive(script)


def test_tasks_of_srun_are_the_ranks_of_one_run(
    slurm: dict[str, str], tmp_path: Path, hotlap: Callable[..., Answer]
) -> None:
    shutil.copy(SCRIPTS / "ddp.py", tmp_path / "ddp_in_slurm.py")
    code = 'RANK=$SLURM_PROCID WORLD_SIZE=2 exec "$@"'
    words = (
        "srun",
        "--nodes=2",
        "--ntasks=2",
        "sh",
        "-c",
        code,
        "sh",
        sys.executable,
        "ddp_in_slurm.py",
    )
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(clusters.free_port())}
    answer = hotlap(*words, cwd=tmp_path, **slurm, **where)
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert [one["rank"] for one in answer.result["ranks"]] == [0, 1]
    assert answer.result["step"]["samples"] == 64
    assert clusters.emptied(slurm)
    assert not alive("ddp_in_slurm.py")
