"""A host that is ahead of its device: the device's clock tells how long steps take."""

import json
import time

import pytest

from hotlap.settings import Limits

TRAINING = """
import time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader
from hotlap.probes import accelerators
from hotlap.probes.install import install

STEP, MOST_AHEAD = 0.02, 1.2

class Device:  # does what it is given when it comes to it, and the host does not wait
    free = 0.0

    def work(self, seconds):
        self.free = max(self.free, time.perf_counter()) + seconds
        time.sleep(max(0.0, self.free - time.perf_counter() - MOST_AHEAD))

device = Device()

class Event:
    def __init__(self):
        self.at = max(device.free, time.perf_counter())

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3

    def synchronize(self):
        time.sleep(max(0.0, self.at - time.perf_counter()))

class Events:
    __call__ = beside = lambda self: Event()
    is_elsewhere = release = lambda self: None

class Accelerator(accelerators.Accelerator):
    def events(self):
        return Events()

    def is_capturing(self):
        return None

accelerators.of = lambda torch, *trained: Accelerator(torch, torch.device("cpu"))
recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while recorder.schedule.stage in ("warmup", "bare", "phases"):
    for x in DataLoader(torch.randn(4000, 4), batch_size=4):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        device.work(STEP)
        if recorder.schedule.stage not in ("warmup", "bare", "phases"):
            break

assert recorder.problems == [], recorder.problems
assert recorder.schedule.settled
assert abs(recorder.schedule.step_seconds - STEP) < 0.2 * STEP, recorder.schedule.step_seconds
"""


@pytest.mark.parametrize("bare", [True, False])
def test_windows_agree_as_the_device_tells(in_python, tmp_path, bare):
    """A window's first steps are over for the host as soon as they have been asked for."""
    trial = tmp_path / "trial"
    trial.mkdir()
    settings = {
        "limits": {**Limits(seconds=12.0).as_dict(), "bare": bare},
        "protected": [],
        "diverted": str(trial / "diverted"),
        "in_place": True,
        "started": time.time(),
    }
    (trial / "settings.json").write_text(json.dumps(settings))
    in_python(TRAINING)
