"""The last batch of an epoch, met for the first time: what is searched or compiled for its size
is no step's time, also where it takes the last of the time for measuring."""

import json
import time

import pytest

from hotlap.settings import Limits

EPOCHS = """
import time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
training = DataLoader(TensorDataset(torch.randn(4 * @BATCHES@ + 2, 4)), batch_size=4)
held = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=10)
known = {4}

while recorder.schedule.stage != "done":
    for (x,) in training:
        time.sleep(0.002 if len(x) in known else @LONG@)
        known.add(len(x))
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    if @EVALUATES@:
        model.eval()
        with torch.no_grad():
            for (x,) in held: model(x)
        model.train()

assert recorder.problems == [], recorder.problems
rows = [row for window in recorder.passes.windows for row in window["intervals"]]
longest = max(rows, key=lambda row: row["seconds"])
assert longest["seconds"] > @LONG@, longest
assert longest["disturbed"], longest
"""


@pytest.mark.parametrize("evaluates", [True, False])
@pytest.mark.parametrize(
    ("seconds", "long"), [(2.0, 2.5), (60.0, 1.2)], ids=["out of time", "with time left"]
)
@pytest.mark.parametrize("batches", [25, 44])
def test_it_does_not_count(in_python, tmp_path, monkeypatch, batches, seconds, long, evaluates):
    monkeypatch.chdir(tmp_path)
    trial = tmp_path / "trial"
    trial.mkdir()
    settings = {
        "limits": Limits(steps=150, seconds=seconds).as_dict(),
        "protected": [],
        "diverted": str(trial / "diverted"),
        "in_place": True,
        "started": time.time(),
    }
    (trial / "settings.json").write_text(json.dumps(settings))
    script = EPOCHS.replace("@BATCHES@", str(batches)).replace("@LONG@", str(long))
    in_python(script.replace("@EVALUATES@", str(evaluates)))


def test_a_window_without_steps_before_an_evaluation_has_none_to_leave_out(in_python):
    """Time may be up before a window has any."""
    in_python("""
from types import SimpleNamespace
import time
import torch
from hotlap.probes.passes import Passes
from hotlap.probes.schedule import BARE, PHASES
from hotlap.probes.steps import EVALUATION

recorder = SimpleNamespace(timing=False, capturing=lambda: False, look_away=lambda: None)
passes = Passes(torch, recorder)
passes._stage_before, passes._stage = BARE, PHASES
passes.windows.append({"stage": BARE, "intervals": []})
assert passes.ended_step(8, EVALUATION, False, time.perf_counter_ns()) is False
""")
