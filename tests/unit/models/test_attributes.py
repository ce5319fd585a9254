"""What a branch keeps, in whatever way, is the same in the backward pass as in the forward pass."""

from collections import Counter, deque
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential

CONTAINERS = (nn.Sequential, ReversibleSequential)


def batch():
    return torch.randn(2, 8, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def trained(container, make, train=None, steps=3):
    torch.manual_seed(0)
    model = container(*[ReversibleBlock(make(), make()) for _ in range(3)]).double()
    torch.manual_seed(0)
    for _ in range(steps):
        (train or step)(model)
    return model, {name: one.grad for name, one in model.named_parameters()}


def step(model):
    model(batch()).square().mean().backward()


def assert_same(make, train=None):
    (plain, expected), (reversible, found) = (trained(one, make, train) for one in CONTAINERS)
    torch.testing.assert_close(found, expected)
    return plain, reversible


class Counts(nn.Module):
    """Multiplies by how often it was called, which it counts in one way or another."""

    def __init__(self, start=None):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)
        if start is not None:
            self.calls = start()

    def forward(self, x):
        return self.convolution(x) * float(self.count() / 4)


class ByDefault(Counts):
    calls = 0

    def count(self):
        self.calls += 1
        return self.calls


class FromNothing(Counts):
    calls = None

    def count(self):
        self.calls = 1 if self.calls is None else self.calls + 1
        return self.calls


class InContainer(Counts):
    def count(self):
        self.calls["n"] += 1
        return self.calls["n"]


class InQueue(Counts):
    def count(self):
        self.calls.append(1)
        return len(self.calls)


class InSet(Counts):
    def count(self):
        self.calls.add(len(self.calls))
        return len(self.calls)


class InObject(Counts):
    def count(self):
        self.calls.n += 1
        return self.calls.n


class InPlace(Counts):
    def count(self):
        self.calls += 1
        return self.calls.item()


class Unfilled(Counts):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", None)

    def count(self):
        self.calls = torch.ones(()) if self.calls is None else self.calls + 1
        return self.calls


class Registered(Counts):
    def count(self):
        if not hasattr(self, "calls"):
            self.register_buffer("calls", torch.zeros(()))
        self.calls += 1
        return self.calls


class Pair(NamedTuple):
    name: str
    count: torch.Tensor


class InTuple(Counts):
    def count(self):
        return self.calls[1].add_(1).item()


class InBytes(Counts):
    def count(self):
        self.calls[0] += 1
        return self.calls[0]


WAYS = {
    "a buffer that is registered later": Registered,
    "a tensor in a tuple": lambda: InTuple(lambda: ("n", torch.zeros(()))),
    "a tensor in a named tuple": lambda: InTuple(lambda: Pair("n", torch.zeros(()))),
    "bytes": lambda: InBytes(lambda: bytearray(1)),
    "a default of the class": ByDefault,
    "a number of numpy": lambda: ByDefault(lambda: np.int64(0)),
    "nothing at first": FromNothing,
    "a dict": lambda: InContainer(lambda: {"n": 0}),
    "a Counter": lambda: InContainer(Counter),
    "a list": lambda: InQueue(list),
    "a deque": lambda: InQueue(lambda: deque(maxlen=9)),
    "a set": lambda: InSet(set),
    "an object": lambda: InObject(lambda: SimpleNamespace(n=0)),
    "a tensor": lambda: InPlace(lambda: torch.zeros(())),
    "an array": lambda: InPlace(lambda: np.zeros(1)),
    "tensors in a dict": lambda: InContainer(lambda: {"n": torch.zeros(())}),
    "a buffer that is filled later": Unfilled,
}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_whatever_counts_counts_once(make):
    plain, reversible = assert_same(make)
    assert str(plain[0].f.calls) == str(reversible[0].f.calls)


class Average(nn.Module):
    def __init__(self, size=1):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)
        self.mean = torch.zeros(size, 4, 1, 1, dtype=torch.float64)

    def forward(self, x):
        new = x.detach().mean((0, 2, 3), keepdim=True)
        self.mean = 0.5 * self.mean + 0.5 * new
        return self.convolution(x - self.mean[:1])


class AverageInPlace(Average):
    def forward(self, x):
        self.mean.mul_(0.5).add_(0.5 * x.detach().mean((0, 2, 3), keepdim=True))
        return self.convolution(x - self.mean[:1])


@pytest.mark.parametrize("make", [Average, AverageInPlace])
def test_an_average_in_a_plain_tensor_is_taken_once(make):
    plain, reversible = assert_same(make)
    torch.testing.assert_close(reversible[0].f.mean, plain[0].f.mean)


def test_a_large_tensor_that_is_written_to_is_refused():
    with pytest.raises(RuntimeError, match="changes its tensor mean in the forward pass"):
        trained(ReversibleSequential, lambda: AverageInPlace(5000))
    model, _ = trained(ReversibleSequential, lambda: Average(5000), steps=1)
    y = model(batch())
    for block in model:
        block.f.mean = torch.zeros_like(block.f.mean)
    y.sum().backward()


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)
        self.mask = None

    def forward(self, x):
        return self.convolution(x) * self.mask


def masked(model, value):
    for one in model.modules():
        if isinstance(one, Masked):
            one.mask = torch.tensor(value)
    return model(batch() * value)


def test_a_mask_that_is_set_before_each_of_two_forward_passes_is_each_ones_own():
    def twice(model):
        (masked(model, 1.0).square().mean() + masked(model, -2.0).mean()).backward()
        assert all(one.mask == -2 for one in model.modules() if isinstance(one, Masked))

    assert_same(Masked, twice)


def test_settings_of_torchs_modules_are_the_forward_passes():
    def change(model):
        dropouts = [one for one in model.modules() if isinstance(one, nn.Dropout)]
        for one in dropouts:
            one.p = 0.1
        y = model(batch())
        for one in dropouts:
            one.p = 0.8
        y.square().mean().backward()
        assert all(one.p == 0.8 for one in dropouts)

    assert_same(lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.Dropout(0.1)), change)
