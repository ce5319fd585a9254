"""What is said of BatchNorm: how much accuracy and time, and whether the seeds allow it."""

import math

import trained

from hotlap.studies import batchnorm
from hotlap.studies.batchnorm import WITH, WITHOUT
from hotlap.studies.study import Setting

FULL = Setting(device="cuda", cores=8)


def read(accuracies, *, setting=FULL, **more):
    found = trained.results(batchnorm.plan(setting), accuracies, **more)
    rows = batchnorm.tabulate(setting, found)
    return rows, batchnorm.read(setting, rows)


def test_accuracy_and_time_are_compared():
    rows, said = read({WITH: 0.8, WITHOUT: 0.7}, seconds={WITH: 2.5, WITHOUT: 2.0})
    assert next(one.name for one in rows if one.best) == WITH
    assert said == (
        "Best: with BatchNorm, 80.2 % of the test images right after 3 epochs; without BatchNorm "
        "70.2 %, 10.0 points less and more than the 3 seeds differ. An epoch with it takes 1.25 "
        "times as long (1.22 to 1.28): 500 ms more."
    )


def test_without_it_can_be_best_and_within_the_spread():
    rows, said = read({WITH: 0.70, WITHOUT: 0.701}, spread=0.01)
    assert not any(row.best for row in rows)
    assert said.startswith("No row is proven best: first is without BatchNorm, 71.1 %")
    assert "0.1 points less, which is within the spread of the 3 seeds" in said
    assert "1.00 times as long (0.97 to 1.03), which is within the noise" in said


def test_a_tie_has_no_best():
    _, said = read({WITH: 0.1, WITHOUT: 0.1}, seconds={WITH: 2.5, WITHOUT: 2.0})
    assert said.startswith("10.2 % of the test images are right ")
    assert " after 3 epochs: no difference. An epoch with it takes 1.25 times as long" in said


def test_one_seed_has_no_spread():
    _, said = read({WITH: 0.8, WITHOUT: 0.7}, setting=Setting(seeds=1))
    assert "10.0 points less, with one seed and so without a spread to compare with" in said


def test_runs_that_diverged_are_said():
    bad = {WITHOUT: [2.3, math.nan, math.nan]}
    _, said = read({WITH: 0.8, WITHOUT: 0.1}, losses=bad)
    assert "Diverged, the loss being no number any more: 1 of 3 runs without BatchNorm." in said


def test_one_that_failed_is_named_and_the_other_read_alone():
    _, said = read({WITH: 0.8})
    assert said == (
        "Only one row was measured: with BatchNorm, 80.2 % of the test images right after 3 "
        "epochs. Without figures: without BatchNorm (failed)."
    )
