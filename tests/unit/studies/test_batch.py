"""Cells as jobs of a cluster: what became of a job is told, and a lost one has no heir."""

import msgspec
import pytest
from queues import RUNNING, Queue

from hotlap.answers import FAILED, MEASURED, OUT_OF_MEMORY, TIMED_OUT, Done, Trained
from hotlap.errors import Interrupted, NothingMeasured
from hotlap.studies import batch
from hotlap.studies.batch import SlurmRunner
from hotlap.studies.job import Request, Response
from hotlap.studies.surroundings import Surroundings
from hotlap.trials import jobs
from hotlap.trials.folder import TrialFolder
from hotlap.trials.jobs import Jobs
from hotlap.trials.slurm import GONE, Job

CELL = Trained(row="two workers", words=("python", "train.py"), limit_seconds=60.0)


def unheard(state):
    return None


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """Of a made-up cluster, and what it said."""
    for module, name in ((jobs, "LOOK_SECONDS"), (jobs, "AGAIN_SECONDS"), (batch, "AGAIN_SECONDS")):
        monkeypatch.setattr(module, name, 0.0)
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    def folder(name):
        trial = TrialFolder(tmp_path / name)
        trial.create()
        return trial

    def made(queue, said=None, **more):
        warn = unheard if said is None else said.append
        return SlurmRunner(
            Jobs(queue, tmp_path, clock=clock, warn=warn), folder, clock=clock, **more
        )

    return made


def answering(**more):
    done = Done(cell=CELL, status=MEASURED, folder="elsewhere", figures={"epochs": [1]})
    response = Response(**{"done": done, "host": "n1", "processor": "EPYC", "gpu": "H200", **more})
    content = msgspec.json.encode(response)
    return lambda folder: (folder / "answer.json").write_bytes(content)


def test_a_job_answers_with_the_node_it_ran_on(runner, tmp_path):
    queue, said = Queue(RUNNING, answer=answering(warnings=("Mind.",))), []
    done = runner(queue, said, before=4).run(CELL, progress=unheard)
    assert done.status == MEASURED
    assert done.folder == "005-two-workers"
    ran_on = {"host": "n1", "processor": "EPYC", "gpu": "H200"}
    assert done.figures == {"epochs": [1], "node": ran_on}
    request = (tmp_path / "005-two-workers" / "request.json").read_bytes()
    assert msgspec.json.decode(request, type=Request).cell == CELL
    assert queue.names[0].endswith("-005-two-workers")
    assert queue.seconds >= CELL.limit_seconds
    assert said == ["Mind."]


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
    done = runner(Queue(RUNNING, *[end] * 100, log=log)).run(CELL, progress=unheard)
    assert done.status == status
    assert reason in done.reason


def test_a_job_whose_node_failed_is_handed_in_again_in_a_folder_of_its_own(runner):
    queue = Queue(answer=answering(), lost=batch.TRIES - 1)
    done = runner(queue).run(CELL, progress=unheard)
    assert done.status == MEASURED
    assert len(set(queue.folders.values())) == batch.TRIES
    assert done.folder == queue.folders[str(batch.TRIES)].name
    queue = Queue(answer=answering(), lost=100)
    done = runner(queue).run(CELL, progress=unheard)
    assert (done.status, len(queue.folders)) == (FAILED, batch.TRIES)
    assert "NODE_FAIL" in done.reason


def test_a_job_that_may_or_may_not_have_been_taken_leaves_nothing_to_the_next(runner):
    queue = Queue(answer=answering(), deaf=2)
    done = runner(queue).run(CELL, progress=unheard)
    assert done.status == MEASURED
    assert len(queue.names) == len(set(queue.names)) == 3
    assert queue.named == queue.names[:2]
    assert done.folder == "003-two-workers"
    said = []
    with pytest.raises(Interrupted):
        runner(Queue(deaf=10**9), said).run(CELL, progress=unheard)
    assert said[-1] == "SLURM has not answered for 600 s: no job was taken."


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b'{"problem":"\xff"}', b'{"done":' + b"[" * 5000, b'{"host": 3}'],
)
def test_an_answer_that_is_none_is_a_failed_row(runner, content):
    queue = Queue(answer=lambda folder: (folder / "answer.json").write_bytes(content))
    done = runner(queue).run(CELL, progress=unheard)
    assert done.status == FAILED
    assert "answer.json is not what a job answers" in done.reason


def test_a_node_is_looked_at_and_what_hinders_it_is_said(runner, tmp_path):
    around = Surroundings(torch="2.9", machine={"cores": 8.0})
    found = runner(Queue(answer=answering(around=around))).look(tmp_path, unheard)
    assert found == around
    (tmp_path / "answer.json").unlink()
    queue = Queue(answer=answering(done=None, problem="torch is not installed there."))
    with pytest.raises(NothingMeasured, match="came to nothing: torch is not installed"):
        runner(queue).look(tmp_path, unheard)
    (tmp_path / "answer.json").unlink()
    with pytest.raises(NothingMeasured, match="it was cancelled before it began"):
        runner(Queue(*[Job(state="CANCELLED")] * 100)).look(tmp_path, unheard)
    with pytest.raises(NothingMeasured, match="SLURM did not answer"):
        runner(Queue(deaf=1)).look(tmp_path, unheard)
