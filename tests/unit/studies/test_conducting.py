"""Cells one after the other: failures are rows, Ctrl-C keeps what there is, nothing runs twice."""

import threading

import made_up
import msgspec
import pytest
from made_up import Told

from hotlap import answers
from hotlap.answers import Called, Done
from hotlap.errors import Interrupted
from hotlap.studies import study
from hotlap.studies.conducting import conduct
from hotlap.studies.study import Setting


def test_each_row_is_told_when_its_last_cell_has_run():
    told, states = [], []
    conduct(
        made_up.made(["a", "b"], runs=2),
        Setting(),
        runner := Told({"a": 1.0, "b": 2.0}),
        tell=lambda row: told.append((row.name, len(runner.ran), row.runs)),
        progress=states.append,
    )
    assert runner.ran == ["b", "a", "a", "b"]
    assert told == [("a", 3, 2), ("b", 4, 2)]
    assert states[0]["recipe"] == "1/4 b"


@pytest.mark.parametrize(("runs", "shown"), [(1, {"a", "b", "c"}), (2, {"c"})])
def test_a_row_is_told_with_its_intervals_when_no_second_run_is_to_come(runs, shown):
    """Two runs that differ, and nothing else to tell of the spread, make an absurd interval."""
    chosen = made_up.made(["a", "b", "c"], runs=runs)
    plain = chosen.tabulate

    def tabulate(setting, results):
        interval = {"seconds": (0.1, 90.0)}
        return [msgspec.structs.replace(row, intervals=interval) for row in plain(setting, results)]

    chosen.tabulate, told = tabulate, []
    found = conduct(chosen, Setting(), Told({"a": 1.0, "b": 2.0, "c": 3.0}), tell=told.append)
    assert {row.name for row in told if row.intervals} == shown
    assert all(row.values for row in told)
    assert all(row.intervals for row in found.rows)


def test_a_failed_cell_is_a_row_with_its_reason_and_the_study_goes_on():
    found = conduct(made_up.made(["a", "b"]), Setting(), Told({"a": "out of paper", "b": 2.0}))
    bad, good = found.rows
    assert (bad.status, bad.reason, bad.values) == ("failed", "out of paper", {})
    assert good.best
    assert found.complete


def test_a_row_of_which_some_runs_failed_has_figures_and_says_so():
    seen = []

    class Moody(Told):
        def run(self, cell, *, progress):
            seen.append(cell)
            self._told = {"a": 1.0 if len(seen) == 1 else "lost power"}
            return super().run(cell, progress=progress)

    (row,) = conduct(made_up.made(["a"], runs=2), Setting(), Moody({})).rows
    assert row.good
    assert row.runs == 1
    assert row.reason == "1 run of 2 failed: lost power"


def test_an_interruption_keeps_what_was_measured():
    kept = []
    found = conduct(
        made_up.made(["a", "b", "c"]),
        Setting(),
        Told({"a": 1.0, "b": Interrupted}),
        keep=lambda known: kept.append(len(known.done)),
    )
    assert not found.complete
    assert kept == [1]
    assert [row.status for row in found.rows] == ["measured", "not run", "not run"]
    assert "2 rows were not run." in found.study.read(None, found.rows)


def test_what_was_measured_is_not_run_again_but_what_failed_is():
    chosen = made_up.made(["a", "b", "c"])
    first = conduct(chosen, Setting(), Told({"a": 1.0, "b": "lost power", "c": 3.0}))
    stored = msgspec.json.decode(msgspec.json.encode(first.done), type=list[Done])
    again = Told({"b": 2.0})
    second = conduct(chosen, Setting(), again, finished=stored)
    assert again.ran == ["b"]
    assert [one.number("seconds") for one in second.rows] == [1.0, 2.0, 3.0]


def test_a_cell_that_changed_is_run_again():
    old = Done(
        cell=Called(row="a", function="nowhere:at_all", arguments={"n": "another"}),
        status=answers.MEASURED,
        figures={"seconds": 9.0},
    )
    runner = Told({"a": 1.0})
    conduct(made_up.made(["a"]), Setting(), runner, finished=[old])
    assert runner.ran == ["a"]


def test_a_cell_that_cannot_be_asked_here_is_skipped_with_its_reason():
    cell = Called(row="a", function="nowhere:at_all", skip="there is no GPU")
    chosen = made_up.made(["a"])
    chosen.plan = lambda setting: [cell]
    runner = Told({})
    (row,) = conduct(chosen, Setting(), runner).rows
    assert runner.ran == []
    assert (row.status, row.reason) == ("skipped", "there is no GPU")


@pytest.mark.parametrize(
    ("runs", "order"), [(1, ["a", "b"]), (2, ["b", "a", "a", "b"]), (3, [*"abbaab"])]
)
def test_rounds_alternate_and_the_last_one_goes_forward(runs, order):
    cells = [Called(row=name, function="x:y") for name in "ab"]
    planned = study.interleaved(cells, runs)
    assert [cell.row for cell in planned] == order
    assert len({(cell.row, cell.run) for cell in planned}) == len(planned)


class Meeting(Told):
    """Cells wait for each other, so that those at once are so for certain."""

    def __init__(self, told, at_once):
        super().__init__(told)
        self._together = threading.Barrier(at_once, timeout=30)
        self.stopped = threading.Event()

    def run(self, cell, *, progress):
        self._together.wait()
        return super().run(cell, progress=progress)


def test_cells_that_are_run_at_once_stand_in_the_order_of_the_plan():
    told, kept = [], []
    found = conduct(
        made_up.made(["a", "b"], runs=2),
        Setting(),
        Meeting({"a": 1.0, "b": 2.0}, at_once=2),
        tell=lambda row: told.append(row.name),
        keep=lambda known: kept.append([one.cell for one in known.done]),
        at_once=2,
    )
    assert found.complete
    assert [one.cell for one in found.done] == list(found.plan)
    assert sorted(told) == ["a", "b"]
    assert [len(cells) for cells in kept] == [1, 2, 3, 4]
    order = list(found.plan)
    assert all(cells == sorted(cells, key=order.index) for cells in kept)


def test_an_interruption_of_one_stops_all_and_keeps_what_there_is():
    class Interrupting(Meeting):
        def run(self, cell, *, progress):
            if cell.row == "a":
                raise Interrupted("Interrupted.")
            assert self.stopped.wait(30)
            raise Interrupted("Interrupted.")

    runner = Interrupting({}, at_once=1)
    found = conduct(
        made_up.made(["a", "b", "c", "d"]),
        Setting(),
        runner,
        at_once=2,
        stop=runner.stopped.set,
    )
    assert not found.complete
    assert runner.stopped.is_set()
    assert found.done == []
