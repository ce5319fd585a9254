"""What is said of optimizers follows from accuracies, their spread, and times."""

import pytest
import torch
import trained

from hotlap.answers import MEASURED, Done
from hotlap.studies import optimizers
from hotlap.studies.study import Results, Setting
from hotlap.workloads import training

FULL = Setting(device="cuda", cores=8)
LEARNED = {
    **{"SGD": 0.70, "Nesterov": 0.74, "Adagrad": 0.55, "Adadelta": 0.60},
    **{"Adam": 0.7401, "Adam fused": 0.7398, "AdamW": 0.75, "AdamW fused": 0.7502},
}
EPOCH = {"loss": 1.0, "train_accuracy": 0.4, "test_accuracy": 0.4, "total_seconds": 9.0}
TIMES = {**dict.fromkeys(LEARNED, 2.0), "Adadelta": 2.6, "AdamW": 2.2, "Adam": 2.01}


def read(accuracies=LEARNED, *, setting=FULL, **more):
    found = trained.results(optimizers.plan(setting), accuracies, **more)
    rows = optimizers.tabulate(setting, found)
    return rows, optimizers.read(setting, rows)


def test_the_best_its_equals_and_the_rest_are_named():
    rows, said = read(seconds=TIMES)
    assert not any(one.best for one in rows)
    assert said.startswith(
        "No row is proven best: first is AdamW fused with 75.1 % on the test images after 3 "
        "epochs; AdamW cannot be told from it within the spread of 2 seeds, and Adam is "
        "1.0 points behind, beyond it. "
    )


def test_times_and_what_fusing_saved_are_told():
    _, said = read(seconds=TIMES)
    assert said.endswith(
        "An epoch takes 2.00 s with AdamW fused and 1.30 times that with Adadelta; fused, Adam "
        "takes 1.00 times as long (within the noise) and AdamW takes 0.91 times as long."
    )


def test_a_best_that_costs_more_than_the_fastest_is_told_to():
    _, said = read({**LEARNED, "AdamW": 0.8}, seconds=TIMES)
    assert "with SGD, 1.10 times that with AdamW and 1.30 times that with Adadelta" in said
    assert "; Adam" not in said.split(".")[0]


def test_a_clear_best_is_said_to_be_beyond_the_spread():
    rows, said = read({**LEARNED, "AdamW": 0.8})
    assert [one.name for one in rows if one.best] == ["AdamW"]
    assert said.startswith("Best: AdamW with 80.1 %")
    assert "epochs; AdamW fused is 5.0 points behind, beyond the spread of 2 seeds." in said


def test_times_that_are_alike_are_said_to_be():
    _, said = read()
    assert said.endswith("An epoch takes 2.00 s with any of them.")
    _, said = read(seconds={**TIMES, "Adadelta": 2.02, "AdamW": 2.03})
    assert said.endswith("An epoch takes 2.00 s to 2.03 s, a difference within the noise.")


def test_within_the_spread_no_difference_is_claimed():
    _, said = read(spread=0.4)
    assert "cannot be told from it within the spread of 2 seeds" in said
    assert "behind" not in said


def test_one_seed_claims_nothing():
    one = Setting(device="cuda", seeds=1)
    _, said = read(setting=one)
    assert "level with AdamW; with one seed the spread between seeds is not known" in said
    _, said = read({**LEARNED, "AdamW": 0.76}, setting=one)
    assert "1.0 points before AdamW fused; with one seed" in said


def test_several_seeds_that_agree_are_not_taken_for_one():
    _, said = read({**LEARNED, "AdamW": 0.8}, spread=0.0)
    assert "AdamW fused is 5.0 points behind, beyond the spread of 2 seeds." in said
    _, said = read(dict.fromkeys(LEARNED, 0.5), spread=0.0)
    assert "cannot be told from it within the spread of 2 seeds" in said
    assert "one seed" not in said


def test_an_optimizer_that_learned_nothing_is_behind_like_any_other():
    _, said = read({"SGD": 0.0, "AdamW": 0.5}, setting=Setting(quick=True), spread=0.0)
    assert "SGD is 50.0 points behind" in said


def test_of_a_single_epoch_the_time_is_that_of_the_first():
    setting = Setting(device="cuda", cores=8, epochs=1)
    plan = optimizers.plan(setting)
    first = [
        Done(cell=cell, status=MEASURED, figures={"epochs": [{**EPOCH, "epoch": 1}]})
        for cell in plan
    ]
    rows = optimizers.tabulate(setting, Results(plan, first))
    assert {row.number("first_seconds") for row in rows} == {9.0}
    assert {row.number("total_seconds") for row in rows} == {None}
    assert "An epoch takes" not in optimizers.read(setting, rows)


def test_rows_that_failed_are_named():
    _, said = read({**LEARNED, "Adadelta": None})
    assert said.endswith("Without figures: Adadelta (failed).")


def test_every_row_says_its_learning_rate_and_is_started_with_it():
    rows, _ = read()
    rates = {one.name: one.number("learning_rate") for one in rows}
    for cell in optimizers.plan(FULL):
        words = dict(zip(cell.words, cell.words[1:], strict=False))
        assert float(words["--lr"]) == rates[cell.row]


@pytest.mark.parametrize("name", optimizers.RATES)
def test_every_row_is_an_optimizer_of_the_workload(name):
    words = dict(zip(*[iter(map(str, optimizers._own(name)))] * 2, strict=True))
    made = training.OPTIMIZERS[words["--optimizer"]]([torch.nn.Parameter(torch.ones(1))], 0.1)
    assert bool(made.defaults.get("fused")) == name.endswith("fused")
