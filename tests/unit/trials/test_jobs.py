"""Jobs that are waited for: none is left behind, and the cluster is asked no more than needed."""

import threading
from itertools import pairwise

import pytest
from queues import RUNNING, Queue

from hotlap.errors import Interrupted, UsageError
from hotlap.trials import jobs
from hotlap.trials.jobs import UNHEARD, Asked, Jobs
from hotlap.trials.slurm import Full, Job

FOR_EVER = [RUNNING] * 1_000_000


def answers(folder):
    (folder / "answer").write_text("42")


def unheard(state):
    return None


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "AGAIN_SECONDS", 0.0)
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    return lambda queue, **more: Jobs(queue, tmp_path, clock=clock, **more)


@pytest.fixture
def asked(tmp_path):
    return Asked(words=("true",), folder=tmp_path, name="a", seconds=60.0, patient=True)


def test_an_answer_ends_the_waiting_and_nothing_is_taken_back(made, asked, tmp_path):
    queue, told = Queue(Job(state="PENDING", reason="Priority"), RUNNING, answer=answers), []
    with made(queue) as one:
        assert one.alive.read_text() == "0"
        assert one.follow(asked, tmp_path / "answer", told.append) is None
    assert queue.cancelled == []
    said = list(dict.fromkeys(state["where"] for state in told))
    assert said[:2] == ["in the queue (Priority)", "running on n1"]
    assert not list(tmp_path.glob("alive*"))


def test_two_in_one_folder_keep_none_of_each_others_jobs_alive(made):
    with made(Queue()) as one, made(Queue()) as other:
        assert one.alive != other.alive


def test_a_job_that_ended_has_a_while_for_its_answer_to_show_up(made, asked, tmp_path):
    ended = Job(state="COMPLETED")
    with made(Queue(*[ended] * 3, answer=answers)) as one:
        assert one.follow(asked, tmp_path / "answer", unheard) is None
    (tmp_path / "answer").unlink()
    with made(queue := Queue(*[ended] * 1000)) as one:
        assert one.follow(asked, tmp_path / "answer", unheard) == ended
    assert queue.cancelled == [["1"]], "it may only seem to have ended"


@pytest.mark.parametrize("state", ["STOPPED", "RESV_DEL_HOLD", "SUSPENDED"])
def test_a_state_that_is_no_end_is_waited_through(made, asked, tmp_path, state):
    with made(Queue(*[Job(state=state)] * 50, answer=answers)) as one:
        assert one.follow(asked, tmp_path / "answer", unheard) is None


def test_whoever_stops_waiting_takes_the_job_back(made, asked, tmp_path):
    def pressed(state):
        raise KeyboardInterrupt

    queue = Queue(*FOR_EVER)
    one = made(queue)  # not left as with `with`, which takes back all
    with pytest.raises(KeyboardInterrupt):
        one.follow(asked, tmp_path / "answer", pressed)
    assert queue.cancelled == [["1"]]


def test_a_stop_takes_back_jobs_whose_threads_do_not_look(made, asked, tmp_path):
    running, go_on = threading.Barrier(3, timeout=30), threading.Event()
    queue, caught = Queue(*FOR_EVER), []

    def hangs(state):
        if not go_on.is_set():
            running.wait()
            assert go_on.wait(30)

    def follow():
        with pytest.raises(Interrupted):
            one.follow(asked, tmp_path / "answer", hangs)
        caught.append(1)

    one = made(queue)
    threads = [threading.Thread(target=follow) for _ in range(2)]
    for thread in threads:
        thread.start()
    running.wait()
    one.stop()
    assert queue.cancelled == [["1", "2"]], "both, while their threads hang"
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert caught == [1, 1]


def test_nothing_is_handed_in_after_a_stop(made, asked, tmp_path):
    queue = Queue(*FOR_EVER)
    one = made(queue)
    one.stop()
    with pytest.raises(Interrupted):
        one.follow(asked, tmp_path / "answer", unheard)
    assert queue.names == []


def test_a_cluster_that_takes_no_more_jobs_for_now_is_asked_again_by_the_patient(
    made, asked, tmp_path
):
    told = []
    with made(Queue(answer=answers, full=3)) as one:
        assert one.follow(asked, tmp_path / "answer", told.append) is None
    assert told[0]["where"] == "waiting for a place in the queue"
    with made(Queue(full=10**9)) as one, pytest.raises(Full):
        one.follow(asked, tmp_path / "answer", unheard)
    hasty = Asked(words=("true",), folder=tmp_path, name="a", seconds=60.0)
    with made(queue := Queue(full=1)) as one, pytest.raises(Full):
        one.follow(hasty, tmp_path / "answer", unheard)
    assert len(queue.names) == 1


def test_a_job_nobody_knows_of_whether_it_was_taken_is_taken_back_by_its_name(
    made, asked, tmp_path
):
    said = []
    with made(queue := Queue(deaf=1), warn=said.append) as one:
        assert one.follow(asked, tmp_path / "answer", unheard) == UNHEARD
    assert queue.named == queue.names
    assert queue.names[0].endswith("-a")
    assert said == ["SLURM does not answer: socket timed out. hotlap goes on asking."]


def test_a_cluster_that_is_silent_for_a_while_is_waited_for_but_not_for_ever(made, asked, tmp_path):
    with made(Queue(RUNNING, answer=answers, silent=5)) as one:
        assert one.follow(asked, tmp_path / "answer", unheard) is None
    (tmp_path / "answer").unlink()
    queue, said = Queue(silent=10**9), []
    one = made(queue, warn=said.append)
    with pytest.raises(Interrupted):
        one.follow(asked, tmp_path / "answer", unheard)
    assert queue.cancelled == [["1"]]
    assert said == ["SLURM has not answered for 600 s: no controller."]


def test_jobs_that_do_not_change_are_asked_about_more_and_more_rarely(made, asked, tmp_path):
    queue, times = Queue(*[RUNNING] * 40, answer=answers), []
    plain = queue.jobs
    with made(queue) as one:
        queue.jobs = lambda numbers: times.append(one._asked) or plain(numbers)
        one.follow(asked, tmp_path / "answer", unheard)
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps[1] < 5
    assert max(gaps) == pytest.approx(jobs.MOST_ASK_SECONDS, abs=3)


def test_a_folder_that_cannot_be_written_to_is_a_sentence(made, asked, tmp_path):
    class Broken(Queue):
        def submit(self, words, **more):
            raise PermissionError(13, "Permission denied")

    with made(Broken()) as one, pytest.raises(UsageError, match="cannot be written to: Permission"):
        one.follow(asked, tmp_path / "answer", unheard)
