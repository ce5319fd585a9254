from types import SimpleNamespace

import pytest
import torch
from torch import nn

from hotlap.probes.memory import (
    MemoryProbe,
    SavedActivations,
    parameters_of,
    process_now,
    process_peak,
    state_bytes,
)

FLOAT = 4


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))


WEIGHTS = 10 * 20 + 20 + 20 * 5 + 5


def train(model, optimizer, probe, batch=8):
    for _ in range(2):
        optimizer.zero_grad()
        probe.forward_begins()
        loss = model(torch.randn(batch, 10)).sum()
        probe.backward_begins()
        loss.backward()
        probe.optimizer_begins()
        optimizer.step()


def measured(model, optimizer, modules=()):
    probe = MemoryProbe(torch, None, [optimizer], list(modules))
    train(model, optimizer, probe)
    return probe.finish()


def test_parameters_gradients_and_state_of_adam_are_exact(model):
    found = measured(model, torch.optim.Adam(model.parameters()))
    assert found["kind"] == "process"
    assert found["parameters_bytes"] == WEIGHTS * FLOAT
    assert found["gradients_bytes"] == WEIGHTS * FLOAT
    steps = 4 * FLOAT  # one counter for each of the four tensors
    assert found["optimizer_bytes"] == 2 * WEIGHTS * FLOAT + steps


def test_plain_sgd_keeps_no_state_and_momentum_keeps_one_copy(model):
    assert measured(model, torch.optim.SGD(model.parameters(), lr=0.1))["optimizer_bytes"] == 0
    momentum = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    assert measured(model, momentum)["optimizer_bytes"] == WEIGHTS * FLOAT


def test_half_precision_counts_half(model):
    model = model.to(torch.bfloat16)
    assert sum(p.untyped_storage().nbytes() for p in model.parameters()) == WEIGHTS * 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert MemoryProbe(torch, None, [optimizer], []).finish()["parameters_bytes"] == WEIGHTS * 2


def test_tied_weights_are_counted_once():
    first = nn.Linear(10, 10, bias=False)
    second = nn.Linear(10, 10, bias=False)
    second.weight = first.weight
    optimizer = torch.optim.SGD([{"params": first.parameters()}], lr=0.1)
    found = MemoryProbe(torch, None, [optimizer], [first, second]).finish()
    assert found["parameters_bytes"] == 100 * FLOAT


def test_frozen_parameters_and_buffers_of_the_model_are_counted_too():
    model = nn.Sequential(nn.Linear(10, 10, bias=False), nn.BatchNorm1d(10, affine=False))
    model[0].weight.requires_grad_(False)
    head = nn.Linear(10, 1, bias=False)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    found = MemoryProbe(torch, None, [optimizer], [model]).finish()
    buffers = 10 * FLOAT + 10 * FLOAT + 8  # mean, variance, and a counter of eight bytes
    assert found["parameters_bytes"] == (100 + 10) * FLOAT + buffers


def test_activations_are_what_autograd_keeps_without_the_weights(model):
    found = measured(model, torch.optim.SGD(model.parameters(), lr=0.1))
    inputs, hidden = 8 * 10 * FLOAT, 8 * 20 * FLOAT
    assert found["activations_bytes"] == inputs + hidden  # ReLU keeps its output, in no new storage


def test_the_peak_of_the_process_is_at_least_what_it_holds_now(model):
    found = measured(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert found["peak_bytes"] > found["parameters_bytes"]
    assert process_peak() >= process_now() > 0
    assert found["reserved_bytes"] is None


def test_each_saved_storage_is_counted_once():
    x = torch.ones(1000, requires_grad=True)
    saved = SavedActivations(torch, [])
    y = x * 2.0
    _ = y * y + y[:500].repeat(2) * y  # y is saved many times, whole and in part
    total = saved.finish()
    assert total == (1000 + 1000) * FLOAT  # y, and its repeated half


def test_weights_are_not_activations_even_when_autograd_saves_them():
    weight = torch.ones(50, 50, requires_grad=True)
    x = torch.ones(4, 50, requires_grad=True)
    saved = SavedActivations(torch, [weight])
    _ = x @ weight
    assert saved.finish() == 4 * 50 * FLOAT


def test_the_largest_of_several_backward_passes_is_the_peak():
    saved = SavedActivations(torch, [])
    for size in (100, 300, 200):
        x = torch.ones(size, requires_grad=True)
        loss = (x * x).sum()
        saved.backward_begins()
        loss.backward()
    assert saved.finish() == 300 * FLOAT


def test_the_hooks_are_gone_when_it_is_over():
    saved = SavedActivations(torch, [])
    saved.finish()
    x = torch.ones(100, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    assert saved.peak == 0
    assert x.grad.tolist() == [2.0] * 100


def test_gradients_are_right_while_activations_are_counted():
    x = torch.arange(4.0, requires_grad=True)
    saved = SavedActivations(torch, [])
    loss = (x**2).sum()
    saved.backward_begins()
    loss.backward()
    saved.finish()
    assert x.grad.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_state_is_found_however_it_is_nested(model):
    state = {
        "a": {"list": [torch.zeros(3), {"deep": torch.zeros(2)}], "step": 5},
        "b": (torch.zeros(4, dtype=torch.float64),),
    }
    assert state_bytes(torch, [SimpleNamespace(state=state)]) == 3 * 4 + 2 * 4 + 4 * 8


def test_parameters_are_those_of_optimizers_and_modules_once_each(model):
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    found = parameters_of([optimizer], [model])
    assert {id(p) for p in found} == {id(p) for p in model.parameters()}
    assert len(found) == 4
