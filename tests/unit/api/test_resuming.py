"""Which tuning is gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotlap.api.resuming import go_on, run_folder
from hotlap.recipes import Recipe
from hotlap.search.book import Request
from hotlap.search.planning import Choice
from hotlap.trials.folder import RunFolder
from hotlap.trials.journal import FILE, Journal
from hotlap.tunings import Run

WORDS = ["train.py"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("time.sleep(0.03)")
    return tmp_path


def opened(project: Path, *, resume: bool = True) -> tuple[Path, str]:
    said: list[str] = []
    run, _ = run_folder(WORDS, project, project / "runs", resume=resume, warn=said.append)
    run.close()
    return run.path, " ".join(said)


def test_the_same_thing_is_gone_on_with(project: Path) -> None:
    path, said = opened(project, resume=False)
    assert said == ""
    assert opened(project)[0] == path
    assert "Going on in" in opened(project)[1]


@pytest.mark.parametrize(("runs", "words"), [(1, "1 finished run is"), (2, "2 finished runs are")])
def test_what_is_taken_from_there_is_counted(project: Path, runs: int, words: str) -> None:
    path, _ = opened(project, resume=False)
    for _ in range(runs):
        Journal(path / FILE).add(Recipe(), Run(folder="x"), full=False)
    assert f"{words} taken from there." in opened(project)[1]


def test_runs_of_a_script_that_has_changed_do_not_count(project: Path) -> None:
    path, _ = opened(project, resume=False)
    (project / "train.py").write_text("time.sleep(0.005)")
    other, said = opened(project)
    assert other != path
    assert "a file that the command names has changed" in said
    assert "A new tuning is started." in said
    (project / "train.py").write_text("time.sleep(0.03)")
    assert opened(project)[0] == path, "as it was, it is the same again"


def test_a_tuning_of_another_folder_is_not_taken(project: Path) -> None:
    (project / "other").mkdir()
    (project / "other" / "train.py").write_text("time.sleep(0.03)")
    opened(project, resume=False)
    said: list[str] = []
    run_folder(WORDS, project / "other", project / "runs", resume=True, warn=said.append)
    assert "the working directory has changed" in said[0]


def test_a_folder_of_an_older_hotlap_cannot_be_checked_and_is_left(project: Path) -> None:
    run = RunFolder.new("tune", out=project / "runs")
    (run.path / "command.json").write_text(json.dumps(WORDS))
    other, said = opened(project)
    assert other != run.path
    assert "cannot be told" in said


def test_where_there_is_nothing_it_is_said(project: Path) -> None:
    assert "There is no tuning of this command" in opened(project)[1]


def test_the_line_to_go_on_with_has_the_options_that_were_given() -> None:
    choice = Choice(only=("threads", "compile"), skip=("tf32",), allow=("batch-size",))
    request = Request(choice=choice, budget=80.0, steps_planned=500)
    line = go_on(
        ["train.py", "--name", "a b"],
        request,
        timeout=300.0,
        home=Path("/tmp/my runs"),
        in_place=True,
    )
    assert line == (
        "hotlap tune --resume --budget 80s --steps-planned 500 --only threads --only compile "
        "--skip tf32 --allow batch-size --out '/tmp/my runs' --in-place train.py --name 'a b'"
    )


def test_the_line_to_go_on_with_has_nothing_that_is_so_anyway() -> None:
    plain = Request(choice=Choice(), budget=600.0)
    line = go_on(WORDS, plain, timeout=300.0, home=None, in_place=False)
    assert line == "hotlap tune --resume train.py"
    small = Request(choice=Choice(goal="memory"), budget=600.0)
    assert "--goal memory --timeout 20 " in go_on(
        WORDS, small, timeout=20.0, home=None, in_place=False
    )
