"""What is said of optimizers follows from accuracies, their spread, and times."""

import pytest
import torch
import trained

from hotlap.studies import optimizers
from hotlap.studies.study import Setting
from hotlap.workloads import training

FULL = Setting(device="cuda", cores=8)
LEARNED = {
    **{"SGD": 0.70, "Nesterov": 0.74, "Adagrad": 0.55, "Adadelta": 0.60},
    **{"Adam": 0.7401, "Adam fused": 0.7398, "AdamW": 0.75, "AdamW fused": 0.7502},
}
TIMES = {**dict.fromkeys(LEARNED, 2.0), "Adadelta": 2.6, "AdamW": 2.2, "Adam": 2.01}


def read(accuracies=LEARNED, *, setting=FULL, **more):
    found = trained.results(optimizers.plan(setting), accuracies, **more)
    rows = optimizers.tabulate(setting, found)
    return rows, optimizers.read(setting, rows)


def test_the_best_its_equals_and_the_rest_are_named():
    rows, said = read(seconds=TIMES)
    assert next(one.name for one in rows if one.best) == "AdamW fused"
    assert said.startswith(
        "Best: AdamW fused with 75.1 % on the test images after 3 epochs; AdamW cannot be told "
        "from it by 2 seeds; Adam is 1.0 points behind, more than the seeds differ, and Adagrad "
        "20.0 points."
    )


def test_times_and_what_fusing_saved_are_told():
    _, said = read(seconds=TIMES)
    assert "most with Adadelta (1.30 times that)" in said
    assert "Fused, Adam takes as long and AdamW takes 0.91 times as long an epoch." in said


def test_times_that_are_alike_are_said_to_be():
    _, said = read()
    assert "An epoch takes 2.00 s, with all alike." in said
    assert "Fused, Adam takes as long and AdamW takes as long." in said


def test_within_the_spread_no_difference_is_claimed():
    _, said = read(spread=0.4)
    assert "cannot be told from it by 2 seeds" in said
    assert "behind" not in said


def test_one_seed_claims_nothing():
    _, said = read(setting=Setting(device="cuda", seeds=1))
    assert "0.0 points before AdamW; with one seed the spread between seeds is not known" in said


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
