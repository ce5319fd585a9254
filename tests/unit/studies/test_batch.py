"""Cells as jobs of a cluster: what became of a job is told, and none is left behind."""

import threading
from itertools import pairwise

import msgspec
import pytest

from hotlap.answers import FAILED, MEASURED, OUT_OF_MEMORY, TIMED_OUT, Done, Trained
from hotlap.errors import Interrupted, NothingMeasured, UsageError
from hotlap.studies import batch
from hotlap.studies.batch import SlurmRunner
from hotlap.studies.job import Request, Response
from hotlap.studies.surroundings import Surroundings
from hotlap.trials.folder import TrialFolder
from hotlap.trials.slurm import GONE, Job, Unanswered

CELL = Trained(row="two workers", words=("python", "train.py"), limit_seconds=60.0)
RUNNING = Job(state="RUNNING", reason="None", nodes="n1")


class Cluster:
    """Jobs go through the states they are given; then they answer, or do not."""

    def __init__(self, *states, answers=(), log="", lost=0):
        self.states, self.answers, self.log, self.lost = states, list(answers), log, lost
        self.folders, self.cancelled, self.asked = {}, [], {}
        self.silent = self.full = 0

    def submit(self, words, *, name, folder, seconds):
        if self.full:
            self.full -= 1
            raise UsageError("SLURM did not take a job: AssocMaxSubmitJobLimit.")
        number = str(len(self.folders) + 1)
        self.folders[number] = folder
        if self.log:
            (folder / "slurm.log").write_text(self.log)
        self.request = msgspec.json.decode((folder / "request.json").read_bytes(), type=Request)
        self.words, self.name, self.seconds = words, name, seconds
        return number

    def jobs(self, numbers):
        if self.silent:
            self.silent -= 1
            raise Unanswered("no controller")
        return {number: self._next(number) for number in numbers}

    def _next(self, number):
        if int(number) <= self.lost:
            return Job(state="NODE_FAIL")
        at = self.asked[number] = self.asked.get(number, -1) + 1
        if at < len(self.states):
            return self.states[at]
        if self.answers:
            content = msgspec.json.encode(self.answers.pop(0))
            (self.folders[number] / "answer.json").write_bytes(content)
        return Job(state="COMPLETED")

    def cancel(self, number):
        self.cancelled.append(number)


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(batch, "AGAIN_SECONDS", 0.0)
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    def made(cluster, **more):
        def folder(name):
            trial = TrialFolder(tmp_path / name)
            trial.create()
            return trial

        return SlurmRunner(cluster, tmp_path, folder=folder, clock=clock, **more)

    return made


def answered(**more):
    done = Done(cell=CELL, status=MEASURED, folder="elsewhere", figures={"epochs": [1]})
    return Response(done=done, host="n1", processor="EPYC", gpu="H200", **more)


def test_a_job_is_waited_for_and_answers_with_the_node_it_ran_on(runner, tmp_path):
    cluster, told, said = Cluster(RUNNING, answers=[answered(warnings=("Mind.",))]), [], []
    with runner(cluster, before=4, warn=said.append) as one:
        done = one.run(CELL, progress=told.append)
        assert (tmp_path / "alive").exists()
    assert done.status == MEASURED
    assert done.folder == "005-two-workers"
    assert done.figures == {
        "epochs": [1],
        "node": {"host": "n1", "processor": "EPYC", "gpu": "H200"},
    }
    assert cluster.request.cell == CELL
    assert cluster.name == "hotlap-005-two-workers"
    assert cluster.seconds >= CELL.limit_seconds
    assert "running on n1" in [state["where"] for state in told]
    assert said == ["Mind."]
    assert cluster.cancelled == []
    assert not (tmp_path / "alive").exists()


@pytest.mark.parametrize(
    ("end", "log", "status", "reason"),
    [
        (Job(state="TIMEOUT", reason="TimeLimit"), "", TIMED_OUT, "ended as TIMEOUT (TimeLimit)"),
        (Job(state="OUT_OF_MEMORY"), "", OUT_OF_MEMORY, "its job ended as OUT_OF_MEMORY"),
        (
            Job(state="FAILED", reason="NonZeroExitCode"),
            "python: No module named hotlap\n\n",
            FAILED,
            "its job ended as FAILED: python: No module named hotlap",
        ),
        (GONE, "", FAILED, "is not known to SLURM any more and left no word. Do the nodes share"),
    ],
)
def test_a_job_that_ends_without_an_answer_is_told_with_what_is_known(
    runner, end, log, status, reason
):
    cluster = Cluster(RUNNING, *[end] * 100, log=log)
    with runner(cluster) as one:
        done = one.run(CELL, progress=lambda state: None)
    assert done.status == status
    assert reason in done.reason
    assert cluster.cancelled == [], "it has ended by itself"


def test_a_job_whose_node_failed_is_handed_in_again(runner):
    cluster = Cluster(answers=[answered()], lost=batch.TRIES - 1)
    with runner(cluster) as one:
        done = one.run(CELL, progress=lambda state: None)
    assert done.status == MEASURED
    assert len(cluster.folders) == batch.TRIES
    cluster = Cluster(answers=[answered()], lost=100)
    with runner(cluster) as one:
        done = one.run(CELL, progress=lambda state: None)
    assert (done.status, len(cluster.folders)) == (FAILED, batch.TRIES)
    assert "NODE_FAIL" in done.reason


def test_an_answer_that_comes_late_through_the_file_system_is_waited_for(runner):
    ended = Job(state="COMPLETED")
    cluster = Cluster(ended, ended, ended, answers=[answered()])
    with runner(cluster) as one:
        assert one.run(CELL, progress=lambda state: None).status == MEASURED


def test_a_stop_takes_back_all_jobs_that_run(runner):
    cluster = Cluster(*[RUNNING] * 1_000_000)
    seen = threading.Barrier(3, timeout=30)
    caught = []

    def watch(state):
        if "running" in state["where"] and threading.current_thread() not in known:
            known.add(threading.current_thread())
            seen.wait()

    def run(one):
        with pytest.raises(Interrupted):
            one.run(CELL, progress=watch)
        caught.append(1)

    known = set()
    with runner(cluster) as one:
        threads = [threading.Thread(target=run, args=(one,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        seen.wait()
        one.stop()
        for thread in threads:
            thread.join(30)
    assert caught == [1, 1]
    assert set(cluster.cancelled) == {"1", "2"}


def test_ctrl_c_takes_the_job_back(runner):
    cluster = Cluster(*[RUNNING] * 1_000_000)

    def pressed(state):
        raise KeyboardInterrupt

    with runner(cluster) as one, pytest.raises(KeyboardInterrupt):
        one.run(CELL, progress=pressed)
    assert set(cluster.cancelled) == {"1"}


def test_a_cluster_that_is_silent_for_a_while_is_waited_for_but_not_for_ever(runner):
    cluster = Cluster(RUNNING, answers=[answered()])
    cluster.silent = 5
    with runner(cluster) as one:
        assert one.run(CELL, progress=lambda state: None).status == MEASURED
    cluster, said = Cluster(RUNNING), []
    cluster.silent = 10**9
    with runner(cluster, warn=said.append) as one, pytest.raises(Interrupted):
        one.run(CELL, progress=lambda state: None)
    assert cluster.cancelled == ["1"]
    assert said == ["SLURM has not answered for 600 s: no controller."]


def test_a_cluster_that_takes_no_more_jobs_for_now_is_asked_again(runner, tmp_path):
    cluster = Cluster(answers=[answered()])
    cluster.full = 3
    with runner(cluster) as one:
        assert one.run(CELL, progress=lambda state: None).status == MEASURED
    cluster = Cluster()
    cluster.full = 10**9
    with runner(cluster) as one:
        done = one.run(CELL, progress=lambda state: None)
        assert (done.status, "MaxSubmitJobLimit" in done.reason) == (FAILED, True)
        with pytest.raises(UsageError, match="did not take"):  # the first: the options are wrong
            one.look(tmp_path, lambda state: None)


def test_jobs_that_do_not_change_are_asked_about_more_and_more_rarely(runner):
    cluster = Cluster(*[RUNNING] * 40, answers=[answered()])
    times = []
    plain = cluster.jobs
    with runner(cluster) as one:
        cluster.jobs = lambda numbers: times.append(one._asked) or plain(numbers)
        one.run(CELL, progress=lambda state: None)
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps[1] < 5
    assert max(gaps) == pytest.approx(batch.MOST_ASK_SECONDS, abs=2)


def test_a_node_is_looked_at_and_what_hinders_it_is_said(runner, tmp_path):
    around = Surroundings(torch="2.9", machine={"cores": 8.0})
    with runner(Cluster(answers=[Response(around=around)])) as one:
        assert one.look(tmp_path, lambda state: None) == around
    with (
        runner(Cluster(answers=[Response(problem="torch is not installed there.")])) as one,
        pytest.raises(NothingMeasured, match="came to nothing: torch is not installed"),
    ):
        one.look(tmp_path, lambda state: None)
    (tmp_path / "answer.json").unlink()
    with (
        runner(Cluster(*[Job(state="CANCELLED")] * 100)) as one,
        pytest.raises(NothingMeasured, match="it ended as CANCELLED"),
    ):
        one.look(tmp_path, lambda state: None)
