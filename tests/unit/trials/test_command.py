import os
import sys
from pathlib import Path

import pytest

from hotlap.errors import UsageError
from hotlap.trials import bootstrap_folder
from hotlap.trials.command import environment, folders, resolve


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("")
    script = tmp_path / "launch.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "plain.sh").write_text("")
    return tmp_path


def test_a_script_runs_with_this_interpreter(folder):
    assert resolve(["train.py", "--epochs", "3"], folder=folder) == [
        sys.executable,
        "train.py",
        "--epochs",
        "3",
    ]


def test_an_absolute_script_runs_from_anywhere(folder, tmp_path_factory):
    script = str(folder / "train.py")
    assert resolve([script], folder=tmp_path_factory.mktemp("other")) == [sys.executable, script]


@pytest.mark.parametrize("command", [["sh", "-c", "true"], ["./launch.sh", "train.py"]])
def test_anything_else_runs_as_typed(folder, command):
    assert resolve(command, folder=folder) == command


def test_the_command_given_is_not_changed(folder):
    command = ["train.py", "-x"]
    resolve(command, folder=folder)
    assert command == ["train.py", "-x"]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ([], "No command was given"),
        (["missing.py"], r"The script missing\.py is not there \(looked in "),
        (["--epochs", "3"], "--epochs is not an option of this verb"),
        (["./missing"], r"The command \./missing is not there"),
        (["./plain.sh"], r"cannot be executed.*hotlap profile bash \./plain\.sh"),
        (["./"], "is a folder"),
        (["no-such-command-anywhere"], "not on the PATH"),
        (["launch.sh"], r"not on the PATH.*try \./launch\.sh"),
        (["FOO=1", "python", "train.py"], "FOO=1 sets a variable.*env FOO=1 "),
        (["DATA=/tmp/x.py", "train.py"], "env DATA=/tmp/x.py "),
        ([""], "first word of the command is empty"),
    ],
)
def test_a_command_that_cannot_start_is_refused_with_the_next_move(folder, command, sentence):
    with pytest.raises(UsageError, match=sentence):
        resolve(command, folder=folder)


def test_a_notebook_is_told_how_to_become_a_script(folder):
    (folder / "my look.ipynb").write_text("{}")
    with pytest.raises(UsageError, match=r"notebook.*nbconvert --to script 'my look\.ipynb'"):
        resolve(["my look.ipynb"], folder=folder)


def test_a_folder_that_ends_like_a_script_is_none(folder):
    (folder / "odd.py").mkdir()
    with pytest.raises(UsageError, match="not there"):
        resolve(["odd.py"], folder=folder)


def test_the_bootstrap_stands_before_the_users_own_path():
    found = environment({"PYTHONPATH": "/home/user/lib:/opt/x"}, trial=Path("/tmp/trial"))
    assert found["PYTHONPATH"].split(os.pathsep) == [
        str(bootstrap_folder()),
        "/home/user/lib",
        "/opt/x",
    ]


def test_a_trial_is_no_run_for_an_experiment_tracker_unless_the_user_says_so():
    asked = {"WANDB_MODE": "online"}
    found = environment(asked, trial=Path("/tmp/trial"), offline=True)
    assert (found["WANDB_MODE"], found["NEPTUNE_MODE"]) == ("online", "offline")
    assert "NEPTUNE_MODE" not in environment({}, trial=Path("/tmp/trial"), watched=False)


@pytest.mark.parametrize("plain", [{}, {"PYTHONPATH": ""}])
def test_an_empty_path_adds_no_current_folder(plain):
    found = environment(plain, trial=Path("/tmp/trial"))
    assert found["PYTHONPATH"] == str(bootstrap_folder())


def test_the_environment_given_is_not_changed_and_carries_over():
    plain = {"HOME": "/home/user", "PYTHONPATH": "/x", "CUDA_VISIBLE_DEVICES": "1"}
    found = environment(plain, trial=Path("/tmp/trial"))
    assert plain == {"HOME": "/home/user", "PYTHONPATH": "/x", "CUDA_VISIBLE_DEVICES": "1"}
    assert found["HOME"] == "/home/user"
    assert found["CUDA_VISIBLE_DEVICES"] == "1"
    assert found["HOTLAP_TRIAL"] == "/tmp/trial"


def test_the_users_word_on_the_fault_handler_stands():
    assert environment({"PYTHONFAULTHANDLER": "0"}, trial=Path("/t"))["PYTHONFAULTHANDLER"] == "0"
    assert environment({}, trial=Path("/t"))["PYTHONFAULTHANDLER"] == "1"


def test_the_bootstrap_folder_brings_nothing_but_its_sitecustomize():
    found = {path.name for path in bootstrap_folder().iterdir()} - {"__pycache__"}
    assert found == {"sitecustomize.py"}


def test_folders_the_command_names_are_covered_and_those_of_the_system_are_not(tmp_path):
    for name in ("project", "runs", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / "run.sh").touch()
    words = ["bash", "../project/run.sh", "--out=../runs", str(tmp_path / "data"), "/usr/bin/env"]
    words += ["/tmp/x.txt", "s3://bucket/key", "no/such/folder/file", "90"]
    found = folders(words, working=tmp_path / "runs")
    expected = {str(tmp_path / name) for name in ("project", "runs", "data")}
    assert set(found) == {*expected, str(Path.home())}


@pytest.mark.parametrize(
    "word",
    [
        "{}",
        "--out={}",
        "-o{}",
        "--dirs=runs,{}",
        "out_dir:{}",
        "file://{}",
        "hydra.run.dir='{}'",
        '{{"out": "{}/new/deep"}}',
        "{}/not/there/yet",
        "python train.py --out {}",
        "cd 'a b' && python train.py --out '{}/last night'",
        "python train.py --note it's --out {}",
    ],
)
def test_a_folder_is_covered_however_it_is_named(tmp_path, word):
    named, working = tmp_path / "outside", tmp_path / "project"
    (named / "last night").mkdir(parents=True)
    working.mkdir()
    found = folders(["train.py", word.format(named)], working=working)
    covered = [Path(one) for one in found[2:]]
    assert any(named == one or named in one.parents for one in covered)
    assert all(one == working or one.is_relative_to(named) for one in covered)


@pytest.mark.parametrize(
    "word",
    ["s3://bucket/key", "https://host/a/b", "--rate=1/2", "/", "a//b", "/no/such/place", "x/tmp/y"],
)
def test_what_only_looks_like_a_path_covers_nothing_more(tmp_path, word):
    found = folders(["train.py", word], working=tmp_path)
    assert set(found) == {str(tmp_path), str(Path.home())}


@pytest.mark.parametrize("name", [".", "models", "models/"])
def test_a_folder_is_told_to_be_one(folder, name):
    (folder / "models").mkdir(exist_ok=True)
    with pytest.raises(UsageError, match="is a folder; name the command that trains in it"):
        resolve([name], folder=folder)
