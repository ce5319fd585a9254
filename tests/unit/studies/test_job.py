"""A cell as a job on its node: what it answers, and that it ends when nobody waits for it."""

import threading

import msgspec

from hotlap.answers import FAILED, MEASURED, Called, Trained
from hotlap.studies import job


def test_without_a_cell_it_says_what_the_node_is(tmp_path):
    answer = job.respond(job.Request(), tmp_path)
    assert answer.around.torch
    assert answer.around.cores > 0
    assert answer.host
    assert answer.processor


def test_a_cell_is_run_in_its_folder_and_answered_whole(tmp_path):
    cell = Called(
        row="a", function="footprint:params", arguments={"no": "such"}, limit_seconds=60.0
    )
    answer = job.respond(job.Request(cell=cell), tmp_path)
    assert answer.done.cell == cell
    assert answer.done.status == FAILED
    assert (tmp_path / "output.log").exists()
    again = msgspec.json.decode(msgspec.json.encode(answer), type=job.Response)
    assert again == answer


def test_a_training_has_its_epochs(tmp_path):
    words = ("python", "-m", "hotlap.workloads.cifar", "--device", "cpu", "--data", "synthetic")
    more = ("--samples", "64", "--batch", "32", "--model", "resnet10", "--width", "4")
    cell = Trained(row="a", words=(*words, *more, "--epochs", "1"), limit_seconds=100.0)
    answer = job.respond(job.Request(cell=cell), tmp_path)
    assert answer.done.status == MEASURED, answer.done.reason
    assert len(answer.done.figures["epochs"]) == 1


def test_a_request_that_cannot_be_done_is_answered_with_a_sentence(tmp_path):
    cell = Trained(row="a", words=("no-such-program",), limit_seconds=10.0)
    answer = job.respond(job.Request(cell=cell), tmp_path)
    assert "no-such-program" in (answer.problem or answer.done.reason)


def counted(tmp_path, beats):
    """How often the file was looked at until the end: it is counted up `beats` times."""
    file, now, looks, ended = tmp_path / "alive", [0.0], [], threading.Event()

    def wait(seconds):
        now[0] += seconds
        looks.append(now[0])
        if len(looks) <= beats:
            file.write_text(str(len(looks)))

    job.watch(file, ended.set, clock=lambda: now[0], wait=wait).join(30)
    assert ended.is_set()
    return looks[-1]


def test_it_ends_once_nobody_has_waited_for_long(tmp_path):
    assert counted(tmp_path, beats=0) == job.ALONE_SECONDS
    assert counted(tmp_path, beats=7) == job.ALONE_SECONDS + 7 * job.LOOK_SECONDS
