"""Steps that are only kept: which are, which are not, and that the record cannot tell."""

import sys
import threading

import pytest

from hotlap.probes.laps import Laps
from hotlap.probes.steps import EVALUATION, FETCHED, STEP, TRAINED, Tally
from hotlap.probes.timeline import BOUNDARY, INPUT, OPTIMIZER, Timeline

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
assert {row["samples"] for row in rows} == {2}
assert all({"forward", "backward", "optimizer"} <= set(row["phases"]) for row in rows)
"""


def test_the_record_has_every_step_whether_it_was_kept_or_not(in_python, tmp_path, monkeypatch):
    import json
    import time

    from hotlap.settings import Limits

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "trial"
    folder.mkdir()
    settings = {
        "limits": Limits(steps=400, seconds=60).as_dict(),
        "protected": [],
        "diverted": str(folder / "diverted"),
        "in_place": True,
        "started": time.time(),
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    in_python(SCRIPT)
