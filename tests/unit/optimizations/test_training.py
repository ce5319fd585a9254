"""What is noted of a recipe while it is at work."""

import json

import pytest

from hotlap.optimizations.training import Training


@pytest.fixture
def training(tmp_path):
    return Training(None, tmp_path)


def noted(training):
    (file,) = (training.folder / "applied").iterdir()
    return json.loads(file.read_text())


def test_what_was_done_is_written_when_it_was_done(training):
    training.applied("compile", "Model, default")
    assert noted(training) == {"compile": {"status": "applied", "detail": "Model, default"}}


def test_applied_somewhere_and_refused_elsewhere_is_applied(training):
    training.applied("channels-last", "Model")
    training.refused("channels-last", "Head has no 2-d convolutions")
    assert noted(training)["channels-last"] == {
        "status": "applied",
        "detail": "Model",
        "except": "Head has no 2-d convolutions",
    }


def test_what_ends_for_the_only_one_it_was_applied_to_was_applied_until_then(training):
    training.applied("sample-cache", "dataset=Tiered")
    training.ended("sample-cache", "the script changes `epoch`")
    applied = {"status": "applied", "detail": "dataset=Tiered"}
    assert noted(training)["sample-cache"] == {**applied, "until": "the script changes `epoch`"}


@pytest.mark.parametrize("again", ["before", "after"])
def test_what_ends_for_one_of_several_goes_on_elsewhere(training, again):
    training.applied("sample-cache", "dataset=Tiered")
    if again == "before":
        training.applied("sample-cache", "dataset=Tiered")
    training.ended("sample-cache", "the script changes `epoch`")
    if again == "after":
        training.applied("sample-cache", "dataset=Tiered")
    applied = {"status": "applied", "detail": "dataset=Tiered"}
    assert noted(training)["sample-cache"] == {**applied, "except": "the script changes `epoch`"}


def test_refused_first_and_applied_later_is_applied(training):
    training.refused("loader-workers", "streams")
    training.applied("loader-workers", "num_workers=2")
    assert noted(training)["loader-workers"] == {"status": "applied", "detail": "num_workers=2"}


def test_what_was_applied_and_withdrawn_is_refused(training):
    training.applied("precision-fp16", "Model")
    training.withdrawn("precision-fp16", "the script scales its loss by itself")
    why = "the script scales its loss by itself"
    assert noted(training)["precision-fp16"] == {"status": "refused", "detail": why}


def test_figures_survive_what_is_said_after_them(training):
    training.count("precision-fp16", "skipped_steps", 3)
    training.applied("precision-fp16", "Model")
    assert noted(training)["precision-fp16"]["skipped_steps"] == 3


def test_the_same_said_again_is_not_written_again(training):
    training.applied("compile")
    (file,) = (training.folder / "applied").iterdir()
    file.unlink()
    training.applied("compile")
    assert not file.exists()


def test_without_a_folder_nothing_is_written():
    training = Training(None, None)
    training.applied("compile")
    assert training.done == {"compile": {"status": "applied", "detail": ""}}
