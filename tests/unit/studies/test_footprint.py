"""What a step takes, counted on networks whose bytes are known."""

import pytest
import torch
from torch import nn

from hotlap.studies import footprint
from hotlap.studies.footprint import MARK, Training

FLOAT = 4


class Wide(nn.Module):
    """Keeps exactly `copies` tensors of its input's size for the backward pass."""

    def __init__(self, copies):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(10, 3))
        self.copies = copies

    def forward(self, x):
        for _ in range(self.copies):
            x = torch.sigmoid(x * 1.0001)
        return x.mean((2, 3)) @ self.weight.T


def memory(at, count):
    return {"name": "[memory]", "ts": at, "args": {"Bytes": count}}


def test_a_trace_is_read_in_the_order_of_time():
    events = [
        memory(5.0, -100),
        memory(1.0, 100),
        {"name": "aten::add", "ts": 0.5},
        {"name": MARK, "ts": 3.0},
        memory(2.0, 20),
        memory(4.0, 500),
    ]
    assert footprint.live_and_most(events) == (120, 620)
    assert footprint.live_and_most([]) == (0, 0)


def test_activations_of_a_network_that_needs_no_gradient_inside_are_none():
    found = footprint.taken(Training(Wide(5), batch=8, device="cpu"))
    assert found["activation_bytes"] < 8 * 3 * 32 * 32 * FLOAT


def test_activations_are_what_the_forward_pass_leaves_behind():
    class Deep(nn.Sequential):
        def __init__(self, layers):
            convolutions = [nn.Conv2d(3, 3, 3, padding=1, bias=False) for _ in range(layers)]
            super().__init__(*convolutions, nn.Flatten(), nn.Linear(3 * 32 * 32, 10))

    one = 8 * 3 * 32 * 32 * FLOAT
    few, many = (
        footprint.taken(Training(Deep(layers), batch=8, device="cpu")) for layers in (2, 6)
    )
    assert many["activation_bytes"] - few["activation_bytes"] == 4 * one
    assert many["peak_bytes"] > many["activation_bytes"]


def test_the_peak_counts_parameters_gradients_momentum_and_the_batch():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10, bias=False))
    training = Training(model, batch=2, device="cpu")
    training.step()
    weights = 3 * 32 * 32 * 10 * FLOAT
    batch = 2 * 3 * 32 * 32 * FLOAT + 2 * 8
    assert training.standing_bytes == 2 * weights + batch
    assert footprint.taken(training)["peak_bytes"] >= 3 * weights + batch
    assert footprint.parameters(model) * FLOAT == weights


class Steps:
    """A training whose steps move the clock on."""

    device = torch.device("cpu")

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.steps = clock, seconds, 0

    def step(self):
        self.clock.now += self.seconds
        self.steps += 1


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_windows_are_taken_in_turns_until_the_time_is_up():
    clock = Clock()
    fast, slow = Steps(clock, 0.1), Steps(clock, 0.2)
    windows = footprint.timed([fast, slow], 2.0, window=0.35, clock=clock)
    assert windows[0] == pytest.approx([0.1] * len(windows[0]))
    assert windows[1] == pytest.approx([0.2] * len(windows[1]))
    assert 4.0 <= clock.now <= 5.5


def test_a_slow_step_still_makes_three_windows():
    clock = Clock()
    (windows,) = footprint.timed([Steps(clock, 10.0)], 1.0, window=0.2, clock=clock)
    assert windows == pytest.approx([10.0] * 3)
