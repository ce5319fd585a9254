"""Steps that are only kept: which are, which are not, and that the record cannot tell."""

import json
import sys
import threading
import time

import pytest

from hotlap.probes.laps import Laps
from hotlap.probes.steps import EVALUATION, FETCHED, STEP, TRAINED, Tally
from hotlap.probes.timeline import BOUNDARY, INPUT, OPTIMIZER, Timeline
from hotlap.settings import Limits

FOREVER = sys.maxsize


class Optimizer:
    pass


class Device:
    """What events and graphs there are."""

    def __init__(self):
        self.recorded = 0
        self.graph = False

    def event(self):
        self.recorded += 1
        return self.recorded

    def is_capturing(self):
        return self.graph


@pytest.fixture
def optimizer():
    return Optimizer()


@pytest.fixture
def tally():
    return Tally()


def made(optimizer, tally, *, timeline=None, device=None, steps=3, until=FOREVER):
    thread = threading.get_ident()
    event = device.event if device else None
    capturing = device.is_capturing if device else lambda: False
    laps = Laps(optimizer, thread, tally, timeline, event, capturing)
    laps.go_on(steps, until)
    return laps


def test_steps_are_kept_until_one_may_end_the_window(optimizer, tally):
    laps = made(optimizer, tally)
    assert [laps.ended(optimizer) for _ in range(5)] == [True, True, True, False, False]
    kept = laps.take()
    assert [lap[1:] for lap in kept] == [(None, (None, STEP))] * 3
    assert kept == sorted(kept, key=lambda lap: lap[0])
    assert laps.take() == []


def test_nothing_is_kept_past_the_deadline(optimizer, tally):
    laps = made(optimizer, tally, until=0)
    assert not laps.ended(optimizer)


@pytest.mark.parametrize("flag", ["evaluated", "loader_started"])
def test_a_step_that_is_not_like_the_others_is_not_kept(optimizer, tally, flag):
    laps = made(optimizer, tally)
    assert laps.ended(optimizer)
    setattr(tally, flag, True)
    assert not laps.ended(optimizer)


def test_another_optimizer_is_not_kept(optimizer, tally):
    assert not made(optimizer, tally).ended(Optimizer())


def test_another_thread_is_not_kept(optimizer, tally):
    laps, answers = made(optimizer, tally), []
    other = threading.Thread(target=lambda: answers.append(laps.ended(optimizer)))
    other.start()
    other.join()
    assert answers == [False]


def test_with_a_device_every_step_has_its_event_and_a_graph_has_none(optimizer, tally):
    device = Device()
    laps = made(optimizer, tally, device=device)
    assert laps.ended(optimizer)
    device.graph = True
    assert not laps.ended(optimizer)
    assert device.recorded == 1
    assert [lap[1] for lap in laps.take()] == [1]


def test_an_optimizer_the_script_has_dropped_is_not_kept_alive(tally):
    laps = made(Optimizer(), tally)
    assert not laps.ended(Optimizer())


def test_where_phases_are_told_apart_the_step_ends_with_the_optimizer(optimizer, tally):
    timeline = Timeline(lambda: 1, None)
    laps = made(optimizer, tally, timeline=timeline)
    tally.tell((FETCHED, 8, 1, False))
    tally.tell((TRAINED, None, None, False))
    timeline.enter(OPTIMIZER)
    assert laps.ended(optimizer)
    assert [phase for phase, _, _ in timeline.marks] == [OPTIMIZER, BOUNDARY, "other"]
    for _ in range(3):
        tally.tell((FETCHED, 8, 1, False))
    assert laps.ended(optimizer)
    assert [lap[2] for lap in laps.take()] == [(8, STEP), (None, EVALUATION)]


def test_a_phase_that_was_never_left_ends_with_the_step():
    timeline = Timeline(lambda: 1, None)
    timeline.enter(OPTIMIZER)
    timeline.enter(INPUT)
    timeline.finish(OPTIMIZER)
    assert timeline.now == "other"


SCRIPT = """
import time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = {"bare": 0, "phases": 0}
taken, seen = 0, {"bare": 0, "phases": 0}
for (x,) in DataLoader(TensorDataset(torch.randn(40000, 4)), batch_size=2):
    stage = recorder.schedule.stage
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    taken += 1
    if stage in kept:
        seen[stage] += 1
        kept[stage] += bool(recorder.laps is not None and recorder.laps._kept)
    if stage == "done":
        break
    last = taken
assert recorder.problems == [], recorder.problems
assert recorder.steps == last, (recorder.steps, last)
for stage in kept:
    rows = [row for window in recorder.passes.windows if window["stage"] == stage
            for row in window["intervals"]]
    assert len(rows) == seen[stage], (stage, len(rows), seen)
    assert kept[stage] > seen[stage] / 2, (stage, kept, seen)
    assert all(row["kind"] == "step" and row["seconds"] > 0 for row in rows)
rows = [row for window in recorder.passes.windows if window["stage"] == "phases"
        for row in window["intervals"] if not row["disturbed"]]
looked = [row["phases"] for row in rows if "phases" in row]
assert {row["samples"] for row in rows if "phases" in row} == {2}
assert {row["samples"] for row in rows if "phases" not in row} == {None}
assert all({"forward", "backward", "optimizer"} <= set(phases) for phases in looked)
assert len(rows) / 3 < len(looked) < len(rows), (len(looked), len(rows))  # every other one
assert recorder.ledger.steps >= len(looked)
"""


def test_the_record_has_every_step_whether_it_was_kept_or_not(in_python, tmp_path, monkeypatch):
    watched(in_python, SCRIPT, tmp_path, monkeypatch)


def watched(in_python, script, folder, monkeypatch):
    """Runs a script that installs the watcher with its record in ./trial."""
    monkeypatch.chdir(folder)
    trial = folder / "trial"
    trial.mkdir()
    settings = {
        "limits": Limits(steps=400, seconds=60).as_dict(),
        "protected": [],
        "diverted": str(trial / "diverted"),
        "in_place": True,
        "started": time.time(),
    }
    (trial / "settings.json").write_text(json.dumps(settings))
    in_python(script)


EVALUATING = """
import time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, held = (TensorDataset(torch.randn(count, 4)) for count in (40000, 2000))
evaluated, unseen = {"bare": 0, "phases": 0}, 0
for number, (x,) in enumerate(DataLoader(data, batch_size=2)):
    if number % 12 == 7:
        stage, watching = recorder.schedule.stage, recorder.passes.timeline.watching
        model.eval()
        with torch.no_grad():
            for (held_out,) in DataLoader(held, batch_size=500):
                model(held_out)
        model.train()
        if stage in evaluated:
            evaluated[stage] += 1
            unseen += not watching
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    if recorder.schedule.stage == "done":
        break
assert recorder.problems == [], recorder.problems
assert unseen > 2, unseen
for stage in evaluated:
    rows = [row for window in recorder.passes.windows if window["stage"] == stage
            for row in window["intervals"]]
    found = sum(row["kind"] == "evaluation" for row in rows)
    assert found == evaluated[stage], (stage, found, evaluated)
"""


def test_an_evaluation_is_known_in_a_step_nobody_looks_into(in_python, tmp_path, monkeypatch):
    watched(in_python, EVALUATING, tmp_path, monkeypatch)


LEAVING = """
import time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(TensorDataset(torch.randn(40000, 4)), batch_size=2):
    if not recorder.passes.timeline.watching:
        break
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
assert recorder.laps is not None and recorder.schedule.stage == "phases"
recorder.catch_up()
assert recorder.passes.timeline.watching and recorder.laps is None
model(x).sum().backward()
optimizer.step()
recorder.passes.close()
rows = recorder.passes.windows[-1]["intervals"]
assert "phases" not in rows[-1], "nobody looked at its beginning"
assert recorder.problems == [], recorder.problems
"""


def test_a_step_that_turns_out_to_be_another_kind_is_looked_at_from_there_on(
    in_python, tmp_path, monkeypatch
):
    watched(in_python, LEAVING, tmp_path, monkeypatch)
