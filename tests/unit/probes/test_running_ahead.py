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

STEP, MOST_AHEAD = 0.02, 60

class Device:  # every step takes it as long, by a clock of its own
    done = ahead = 0

    def work(self):
        self.done += 1
        self.ahead += 1
        if self.ahead > MOST_AHEAD:  # so many may wait; then the host does, too
            time.sleep(STEP)

device = Device()

class Event:
    def __init__(self):
        self.at = device.done * STEP

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3

    def synchronize(self):
        device.ahead = 0

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
        device.work()
        if recorder.schedule.stage not in ("warmup", "bare", "phases"):
            break

assert recorder.problems == [], recorder.problems
assert recorder.schedule.settled
assert abs(recorder.schedule.step_seconds - STEP) < 1e-6, recorder.schedule.step_seconds
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
