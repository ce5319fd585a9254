import pytest

from hotlap.api.failures import counted, how_it_failed, why_nothing
from hotlap.errors import CommandFailed, NothingMeasured
from hotlap.settings import Limits
from hotlap.trials.folder import TrialFolder
from hotlap.trials.runner import Outcome


@pytest.fixture
def why(tmp_path):
    trial = TrialFolder(tmp_path)
    trial.create()

    def ask(**outcome):
        return why_nothing(["bash", "run.sh"], Outcome(**outcome), trial, Limits())

    return ask


def test_a_training_in_the_background_is_told_as_that(why):
    problem = why(code=0, left_running=["python train.py"])
    assert isinstance(problem, NothingMeasured)
    assert "still ran in the background (python train.py)" in str(problem)
    assert "leave out the &" in str(problem)
    assert "without importing torch" not in str(problem)


def test_what_python_itself_leaves_behind_for_a_moment_is_no_training(why):
    left = ["python -c from multiprocessing.resource_tracker import main;main(5)"]
    assert "without importing torch" in str(why(code=0, left_running=left))


def test_a_command_that_hung_after_its_first_step_did_not_end(why, tmp_path):
    (TrialFolder(tmp_path).records / "7.json").write_text("{}")
    (TrialFolder(tmp_path).seen / "7.json").write_text("{}")
    assert "ended after a single training step" in str(why(code=0))
    problem = str(why(stopped="stalled", idle=9.2, signal=15))
    assert "ended" not in problem
    assert "a single step and then for 9 s for none, so it was stopped" in problem
    assert "--timeout" in problem


def test_a_program_on_the_command_line_is_told_by_its_first_line():
    words = ["python", "-c", "import torch\ntorch.boom()\n"]
    assert "(python -c import torch …) failed" in how_it_failed(words, Outcome(code=1))


def test_a_command_that_failed_is_told_as_that_whatever_it_left(why, tmp_path):
    problem = why(code=3, left_running=["python train.py"])
    assert isinstance(problem, CommandFailed)
    assert "failed with exit code 3" in str(problem)
    assert str(TrialFolder(tmp_path).output) in str(problem)


@pytest.mark.parametrize(
    ("outcome", "words"), [({"code": 1}, "27 steps"), ({"signal": 9}, "at least 27 steps")]
)
def test_of_a_process_that_was_killed_the_last_steps_are_not_known(outcome, words):
    assert counted(Outcome(**outcome), 27) == words


def test_a_python_that_is_too_old_is_told_with_the_next_move(why, tmp_path):
    note = "the command runs on Python 3.9.18, and hotlap can be in there from 3.10 on"
    (tmp_path / "bootstrap-7.txt").write_text(note)
    assert str(why(code=0)) == f"T{note[1:]}. Start it with a newer one."


def test_a_torch_that_could_not_be_watched_is_told_by_what_went_wrong(why, tmp_path):
    (tmp_path / "bootstrap-7.txt").write_text("Traceback:\n  ...\nAttributeError: no hooks\n")
    problem = str(why(code=0))
    assert "could not watch this torch: AttributeError: no hooks. Please report it" in problem
    assert str(tmp_path / "bootstrap-7.txt") in problem
