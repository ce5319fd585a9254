"""What a closure does is told as it would be outside of it; the optimizer has what is its own."""

import json

import pytest
from clocked import milliseconds

SCRIPT = """
import functools, time
from pathlib import Path
import torch
from torch import nn
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
now = 0  # a clock that only the script's own code moves
time.perf_counter_ns = lambda: now

def pass_(milliseconds):
    global now
    now += milliseconds * 1_000_000

class Slow(nn.Linear):
    def forward(self, x):
        pass_(2)
        return super().forward(x)

class Own(torch.optim.Optimizer):
    CALLS = 1

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None, beside=None):
        pass_(16)
        for _ in range(self.CALLS):
            loss = closure()
        pass_(32)
        return loss

class Twice(Own):
    CALLS = 2

class Pass:
    def closure(self):
        return closure()

model = Slow(4, 1)

def closure():
    assert torch.is_grad_enabled()
    optimizer.zero_grad()
    pass_(1)
    prediction = model(torch.ones(8, 4))
    pass_(4)
    loss = prediction.square().mean()
    loss.backward()
    pass_(8)
    return loss
"""
ONCE = {"other": 9, "forward": 2, "gap": 4, "optimizer": 48}
TWICE = {"other": 18, "forward": 4, "gap": 8, "optimizer": 48}


def steps_looked_into(record):
    windows = [window for window in record["windows"] if window["stage"] == "phases"]
    return [
        milliseconds(row["phases"])
        for window in windows
        for row in window["intervals"]
        if "phases" in row and not row["disturbed"]
    ]


def written(trial):
    (file,) = (trial / "records").iterdir()
    record = json.loads(file.read_text())
    assert record["problems"] == []
    return record


@pytest.mark.parametrize(
    ("kind", "step", "expected"),
    [
        ("Own", "optimizer.step(closure)", ONCE),
        ("Own", "optimizer.step(closure=closure)", ONCE),
        ("Own", "optimizer.step(closure, None)", ONCE),
        ("Own", "optimizer.step(functools.partial(closure))", ONCE),
        ("Own", "optimizer.step(Pass().closure)", ONCE),
        ("Twice", "optimizer.step(closure)", TWICE),
    ],
)
def test_only_what_stands_around_a_closure_is_the_optimizers(
    in_python, trial, kind, step, expected
):
    in_python(
        SCRIPT
        + f"""
optimizer = {kind}(model.parameters())
for _ in range(100):
    loss = {step}
    assert loss.shape == ()
"""
    )
    record = written(trial)
    rows = steps_looked_into(record)
    assert rows
    assert all(row == expected for row in rows)
    assert record["kernels"]["operations"]["gap"] >= 2  # square and mean: the loss
    samples = {
        row["samples"]
        for window in record["windows"]
        if window["stage"] == "phases"
        for row in window["intervals"]
    }
    assert samples == {8}  # the batch counts once, however often the closure is called


def test_after_a_closure_that_raised_the_next_step_is_told_as_ever(in_python, trial):
    in_python(
        SCRIPT
        + """
optimizer = Own(model.parameters())

def fails():
    raise ArithmeticError("no")

for _ in range(100):
    optimizer.step(closure)
    try:
        optimizer.step(fails)
    except ArithmeticError:
        pass_(64)
"""
    )
    rows = steps_looked_into(written(trial))
    expected = {**ONCE, "optimizer": ONCE["optimizer"] + 16, "other": ONCE["other"] + 64}
    assert rows
    assert all(row == expected for row in rows)


def test_an_object_that_may_be_more_than_a_function_is_handed_over_as_it_is(in_python, trial):
    in_python(
        SCRIPT
        + """
class Asked(Own):
    def step(self, model):
        assert type(model) is Slow
        return closure()

optimizer = Asked(model.parameters())
for _ in range(100):
    optimizer.step(model)
"""
    )
    assert steps_looked_into(written(trial))


def test_a_closure_in_no_window_is_the_scripts_own(in_python, trial):
    in_python(
        SCRIPT
        + """
class Asked(Own):
    def step(self, closure):
        handed.add((recorder.timing, closure is given))
        return closure()

given, handed = closure, set()
optimizer = Asked(model.parameters())
for _ in range(100):
    optimizer.step(closure)
assert handed == {(False, True), (True, False)}, handed
"""
    )
