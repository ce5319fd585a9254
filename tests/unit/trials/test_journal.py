"""Finished runs are taken up again, once each, in their order."""

from __future__ import annotations

from pathlib import Path

from hotlap.recipes import Recipe
from hotlap.trials.journal import Journal
from hotlap.tunings import Run

RECIPE = Recipe({"channels-last": {}})


def test_runs_come_back_in_their_order_and_only_once(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal.jsonl")
    for number in range(3):
        first.add(RECIPE, Run(folder=str(number)), full=False)
    first.add(Recipe(), Run(folder="base"), full=False)
    again = Journal(tmp_path / "journal.jsonl")
    again.read()
    assert again.known == 4
    taken = [again.take(RECIPE, full=False) for _ in range(4)]
    assert [line.run.folder if line else None for line in taken] == ["0", "1", "2", None]
    assert again.take(Recipe(), full=True) is None


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add(RECIPE, Run(folder="a"), full=False)
    journal.add(RECIPE, Run(folder="b"), full=False)
    path.write_bytes(path.read_bytes()[:-20])
    again = Journal(path)
    again.read()
    assert again.known == 1


def test_a_journal_that_is_not_there_is_empty(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "none")
    journal.read()
    assert journal.known == 0
