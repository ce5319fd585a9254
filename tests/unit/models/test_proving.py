"""A branch that would do something else in the backward pass is refused in the forward pass."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from hotlap.models.proving import Turns
from hotlap.models.reversible import ReversibleBlock, ReversibleSequential
from hotlap.models.revnet import RevNet


class Asks(nn.Module):
    """Multiplies by what it is told, each time it runs."""

    def __init__(self, ask):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)
        self.ask = ask

    def forward(self, x):
        return self.convolution(x) * self.ask()


def sequence(ask):
    return ReversibleSequential(ReversibleBlock(nn.Conv2d(4, 4, 1), Asks(ask)))


def batch():
    return torch.randn(2, 8, 6, 6)


def test_what_depends_on_the_pass_is_refused():
    model = sequence(lambda: 1 + torch.is_grad_enabled())
    with pytest.raises(RuntimeError, match=r"G \(Asks\) makes something else .* 100\.0%"):
        model(batch())
    with torch.no_grad():
        model(batch())


def test_what_counts_outside_of_itself_is_refused():
    calls = iter(range(1, 9))
    with pytest.raises(RuntimeError, match="keep what it counts in attributes"):
        sequence(lambda: next(calls))(batch())


@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan")])
def test_what_cannot_be_compared_is_not_refused(value):
    sequence(lambda: value)(batch()).sum().backward()


def test_each_time_twice_as_many_steps_pass():
    turns = Turns()
    assert [at for at in range(1, 40) if turns.next()] == [1, 2, 4, 8, 16, 32]


def test_a_step_runs_a_branch_twice_except_where_it_is_proven():
    calls = []
    model = sequence(lambda: calls.append(1) or 1)
    for expected in (3, 3, 2, 3, 2):
        calls.clear()
        model(batch()).sum().backward()
        assert len(calls) == expected


def test_blocks_inside_a_branch_are_not_proven_in_each_step():
    """One run in the forward pass; in the backward pass one to compute and one to walk back."""
    calls = []
    inner = sequence(lambda: calls.append(1) or 1)
    model = ReversibleSequential(ReversibleBlock(inner, nn.Identity()))
    counts = []
    for _ in range(8):
        calls.clear()
        model(torch.randn(2, 16, 6, 6)).sum().backward()
        counts.append(len(calls))
    assert counts.count(3) > len(counts) / 3


class Beside(nn.Module):
    """Keeps something for a loss besides what it returns."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)
        self.losses = []

    def forward(self, x):
        y = self.convolution(x)
        self.size = y.abs().mean()
        self.losses[:] = [y.square().mean()]
        return y


@pytest.mark.parametrize("of", [lambda one: one.size, lambda one: one.losses[0]])
def test_a_loss_beside_what_is_returned_is_refused(of):
    model = ReversibleSequential(ReversibleBlock(Beside(), Beside()))
    loss = model(batch()).square().mean() + of(model[0].f) + of(model[0].g)
    with pytest.raises(RuntimeError, match=r"(size|0) of G \(Beside\) is part of a loss"):
        loss.backward()


def test_what_is_kept_to_be_looked_at_does_no_harm():
    model = ReversibleSequential(ReversibleBlock(Beside(), Beside()))
    for _ in range(3):
        model(batch()).square().mean().backward()
        assert model[0].f.size.item() > 0


# Tensors without data ----------------------------------------------------------------------------


def test_it_runs_on_the_meta_device():
    with torch.device("meta"):
        model = RevNet(38, units=2)
        model(torch.empty(2, 3, 32, 32)).sum().backward()
    assert model.stem.weight.grad.is_meta


def test_it_runs_with_fake_tensors():
    with FakeTensorMode():
        model = RevNet(38, units=2)
        model(torch.empty(2, 3, 32, 32)).sum().backward()
    assert model.stem.weight.grad.shape == model.stem.weight.shape
