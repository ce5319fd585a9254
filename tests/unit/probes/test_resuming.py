"""An evaluation between two epochs: what comes after it is the start of an epoch."""

import json
import time

import pytest

from hotlap.probes.passes import joined
from hotlap.probes.steps import EPOCH, EVALUATION, RESUMED, STEP, Tally
from hotlap.settings import Limits

TRAINS, HELD_OUT = 7, 8


def begin_epoch(tally):
    tally.loader_started = True
    tally.resume()


def train(tally, batches=1):
    for _ in range(batches):
        tally.fetched(4, TRAINS)
        tally.backward()


def trained():
    tally = Tally()
    train(tally)
    tally.close()
    return tally


def test_an_epoch_that_begins_after_an_evaluation_is_told_apart_from_it():
    tally = trained()
    tally.evaluate()
    begin_epoch(tally)
    assert tally.close() == (None, RESUMED)
    assert tally.close() == (None, STEP)


def test_an_evaluation_that_is_known_by_its_batches_is_told_apart_as_well():
    tally = trained()
    for _ in range(3):
        tally.fetched(10, HELD_OUT, blind=True)
    tally.closed()
    begin_epoch(tally)
    tally.closed()
    train(tally, batches=2)
    assert tally.close() == (8, RESUMED)


def test_an_epoch_that_begins_without_an_evaluation_is_whole():
    tally = trained()
    begin_epoch(tally)
    train(tally)
    assert tally.close() == (4, EPOCH)


def test_an_evaluation_after_the_epoch_has_begun_is_not_told_apart():
    tally = trained()
    tally.evaluate()
    begin_epoch(tally)
    tally.evaluate()
    assert tally.close()[1] == EVALUATION


@pytest.mark.parametrize("looked_at", [1, 3])
def test_batches_that_nobody_trains_on_since_then_are_an_evaluation(looked_at):
    tally = trained()
    tally.evaluate()
    begin_epoch(tally)
    tally.closed()
    for _ in range(looked_at):
        tally.fetched(10, HELD_OUT, blind=True)
    train(tally)
    assert tally.close()[1] == EVALUATION


def test_a_batch_may_be_fetched_ahead_since_then():
    tally = trained()
    tally.evaluate()
    begin_epoch(tally)
    tally.closed()
    tally.fetched(4, TRAINS)
    train(tally)
    assert tally.close() == (4, RESUMED)


def test_a_step_of_both_parts_has_the_later_one_apart():
    evaluation = {"seconds": 3.0, "kind": EVALUATION, "phases": {"input": 1.0, "other": 2.0}}
    training = {"seconds": 1.0, "samples": 4, "kind": RESUMED, "phases": {"input": 1.0}}
    row = joined(evaluation, training)
    assert (row["seconds"], row["kind"], row["samples"]) == (4.0, EVALUATION, 4)
    assert row["phases"] == {"input": 2.0, "other": 2.0}
    assert row["resumed"] == {**training, "kind": EPOCH}
    del evaluation["phases"]
    assert "phases" not in joined(evaluation, training)


EPOCHS = """
import sys, time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
training = DataLoader(TensorDataset(torch.randn(24, 4)), batch_size=4)
held = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=10)

def take_time():
    until = time.perf_counter() + 0.005
    while time.perf_counter() < until: pass

def look_at(loader):
    with torch.no_grad():
        for (x,) in loader:
            model(x)
    take_time()

@EVALUATE@

while recorder.schedule.stage != "done":
    for (x,) in training:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    evaluate()

assert recorder.problems == [], recorder.problems
expected = @EXPECTED@
for stage in ("bare", "phases"):
    rows = [row for window in recorder.passes.windows if window["stage"] == stage
            for row in window["intervals"]]
    found = [row for row in rows if row["kind"] == "evaluation"]
    assert found, stage
    assert all(("resumed" in row) == expected for row in found), (stage, found)
    assert all(row["seconds"] > 0.005 for row in found), (stage, found)
    later = [row["resumed"] for row in found if "resumed" in row]
    for whole, row in zip(found, later):
        assert row["kind"] == "epoch"
        assert 0 < row["seconds"] < whole["seconds"] - 0.005, (stage, whole)
    assert all(row["seconds"] < 0.005 or row["disturbed"] for row in rows if row["kind"] == "epoch")
    looked_into = [row for row in later if "phases" in row]
    assert all({"input", "forward", "backward"} <= set(row["phases"]) for row in looked_into)
    assert looked_into or stage == "bare" or not expected
"""
EVALUATIONS = {
    "without evaluation mode": ("look_at(held)", True),
    "in evaluation mode": ("model.eval(); look_at(held); model.train()", True),
    "on both loaders": ("model.eval(); look_at(held); look_at(training); model.train()", True),
    "and stays in evaluation mode": ("model.eval(); look_at(held)", False),
}


def in_trial(folder):
    trial = folder / "trial"
    trial.mkdir()
    settings = {
        "limits": Limits(steps=150, seconds=20).as_dict(),
        "protected": [],
        "diverted": str(trial / "diverted"),
        "in_place": True,
        "started": time.time(),
    }
    (trial / "settings.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(("evaluate", "expected"), EVALUATIONS.values(), ids=EVALUATIONS)
def test_the_record_tells_the_evaluation_from_the_start_of_the_next_epoch(
    in_python, tmp_path, monkeypatch, evaluate, expected
):
    monkeypatch.chdir(tmp_path)
    in_trial(tmp_path)
    script = EPOCHS.replace("@EVALUATE@", f"def evaluate(): {evaluate}")
    in_python(script.replace("@EXPECTED@", str(expected)))


ANEW = """
import time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []

while recorder.schedule.stage != "done":
    kept.append(DataLoader(TensorDataset(torch.randn(24, 4)), batch_size=4))  # no id comes twice
    for (x,) in kept[-1]:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

assert recorder.problems == [], recorder.problems
rows = [row for window in recorder.passes.windows if window["stage"] == "bare"
        for row in window["intervals"]]
assert {row["kind"] for row in rows} == {"step", "epoch"}, [row["kind"] for row in rows]
"""


def test_a_loader_made_anew_for_an_epoch_evaluates_nothing(in_python, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    in_trial(tmp_path)
    in_python(ANEW)
