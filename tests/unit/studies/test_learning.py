"""Learning over seeds: what differs beyond their spread, what diverged, and the curves."""

import math

import pytest
import trained

from hotlap import units
from hotlap.answers import Row
from hotlap.studies import batchnorm, learning, standings
from hotlap.studies.study import Setting

FULL = Setting(device="cuda", cores=8)
WITH, WITHOUT = batchnorm.WITH, batchnorm.WITHOUT


def tabulated(accuracies, **more):
    found = trained.results(batchnorm.plan(FULL), accuracies, **more)
    return learning.tabulate(found, lambda name: {}), found


def row(value, low, high):
    return Row(name="a", values={"x": value}, intervals={"x": (low, high)})


def test_a_row_is_what_was_learned_at_the_end_and_what_a_later_epoch_took():
    (first, _), _ = tabulated({WITH: 0.8, WITHOUT: 0.7})
    assert first.number("test_accuracy") == pytest.approx(0.802)
    assert first.number("loss") == 0.5
    assert first.number("total_seconds") == pytest.approx(2.0, rel=0.01)
    assert first.number("first_seconds") == 9.0
    assert first.number("epochs") == 3
    low, high = first.intervals["test_accuracy"]
    assert low < 0.802 < high


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((0.80, 0.79, 0.81), (0.70, 0.69, 0.71), True),
        ((0.80, 0.79, 0.81), (0.79, 0.78, 0.80), False),
        ((0.80, 0.78, 0.82), (0.77, 0.75, 0.79), True),
        ((0.80, 0.60, 1.00), (0.70, 0.50, 0.90), False),
        ((0.02, 0.00, 0.10), (0.08, 0.00, 0.16), False),
    ],
)
def test_what_is_apart_is_apart_either_way(one, other, apart):
    assert standings.apart(row(*one), row(*other), "x") is apart
    assert standings.apart(row(*other), row(*one), "x") is apart


def test_without_a_spread_nothing_is_known_to_differ():
    assert standings.apart(row(1, 0, 2), Row(name="b", values={"x": 1.0}), "x") is None
    setting = Setting(quick=True, seeds=1)
    found = trained.results(batchnorm.plan(setting), {WITH: 0.8, WITHOUT: 0.7})
    rows = learning.tabulate(found, lambda name: {})
    assert "test_accuracy" not in rows[0].intervals
    assert not learning.draw(rows, found, "x")[0].series[0].low


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_a_run_that_diverged_is_told_and_leaves_the_loss_of_the_others(bad):
    rows, found = tabulated({WITH: 0.8, WITHOUT: 0.1}, losses={WITHOUT: [2.3, bad, bad]})
    assert rows[1].reason == "1 of 3 runs diverged: the loss was no number any more"
    assert rows[1].number("loss") == 0.5
    assert learning.troubles(rows).endswith("1 of 3 runs without BatchNorm.")
    pictures = learning.draw(rows, found, "x")
    values = [value for one in pictures for line in one.series for value in line.y]
    assert all(value is None or math.isfinite(value) for value in values)


def test_no_interval_leaves_what_can_be():
    rows, found = tabulated({WITH: 0.9, WITHOUT: 0.25}, spread=0.05)
    for one in rows:
        low, high = one.intervals["test_accuracy"]
        assert 0 <= low <= high <= 1
    lines = learning.draw(rows, found, "x")[0].series
    assert all(
        0 <= low <= high <= 1 for one in lines for low, high in zip(one.low, one.high, strict=True)
    )


def test_pictures_have_a_line_with_a_band_for_every_row():
    rows, found = tabulated({WITH: 0.8, WITHOUT: 0.7})
    accuracy, loss = learning.draw(rows, found, "with both")
    assert (accuracy.kind, accuracy.y.unit) == ("bands", "share")
    assert [one.name for one in accuracy.series] == [WITH, WITHOUT]
    assert accuracy.series[0].x == ("1", "2", "3")
    assert accuracy.series[0].y == pytest.approx((0.602, 0.702, 0.802))
    assert "with BatchNorm ends highest at 80.2 %" in accuracy.words
    assert loss.series[0].y == (2.0, 1.0, 0.5)


def test_each_seed_is_a_run_of_its_own():
    plan = batchnorm.plan(Setting(seeds=2))
    assert [(one.row, one.words[-2:]) for one in plan if one.row == WITH] == [
        (WITH, ("--seed", "0")),
        (WITH, ("--seed", "1")),
    ]


def test_a_gap_is_that_between_the_figures_that_are_shown():
    rows = [Row(name="a", values={learning.ACCURACY: value}) for value in (0.49861, 0.48849)]
    assert [units.accuracy(one.number(learning.ACCURACY)) for one in rows] == ["49.9 %", "48.8 %"]
    assert learning.points(*rows) == "1.1 points"
