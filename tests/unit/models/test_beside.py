"""What a branch keeps for a loss beside what it returns is found wherever it is."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential


class Pair(NamedTuple):
    name: str
    loss: torch.Tensor


class Beside(nn.Module):
    """Puts a loss into a container that it makes anew each time."""

    def __init__(self, container):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.container = container

    def forward(self, x):
        y = self.linear(x)
        self.kept = self.container(y.square().sum())
        return y


class InBuffer(Beside):
    def __init__(self):
        super().__init__(lambda loss: loss)
        self.register_buffer("kept", torch.zeros(()))


WAYS = {
    "a list": (lambda one: [one], lambda kept: kept[0], "kept 0"),
    "a dict": (lambda one: {"a": one}, lambda kept: kept["a"], "kept a"),
    "a tuple": (lambda one: (1, one), lambda kept: kept[1], "kept 1"),
    "a named tuple": (lambda one: Pair("a", one), lambda kept: kept.loss, "kept 1"),
    "an object": (lambda one: SimpleNamespace(a=one), lambda kept: kept.a, "kept a"),
    "lists in tuples": (lambda one: ([one],), lambda kept: kept[0][0], "kept 0 0"),
    "tuples in lists": (lambda one: [(one,)], lambda kept: kept[0][0], "kept 0 0"),
}


def batch():
    return torch.randn(16, 8, generator=torch.Generator().manual_seed(0))


def refused(module, loss, name):
    model = ReversibleSequential(ReversibleBlock(module, nn.Identity()))
    for _ in range(2):
        y = model(batch())
        with pytest.raises(RuntimeError, match=rf"^{name} of F \(\w+\) is part of a loss"):
            (y.sum() + loss()).backward()
    model(batch()).sum().backward()


@pytest.mark.parametrize(("container", "of", "name"), WAYS.values(), ids=WAYS)
def test_a_loss_in_a_new_container_is_refused(container, of, name):
    module = Beside(container)
    refused(module, lambda: of(module.kept), name)
    assert type(module.kept) is type(container(torch.zeros(())))


def test_a_loss_in_a_buffer_is_refused():
    module = InBuffer()
    refused(module, lambda: module.kept, "kept")


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_loss_of_a_weight_that_a_hook_computes_is_refused():
    module = nn.utils.weight_norm(nn.Linear(4, 4))
    refused(module, lambda: module.weight.square().sum(), "weight")


def test_a_buffer_that_is_written_to_stays_the_tensor_it_is():
    class Averages(InBuffer):
        def forward(self, x):
            self.kept.mul_(0.9).add_(0.1 * x.mean())
            return self.linear(x)

    module = Averages()
    kept = module.kept
    ReversibleSequential(ReversibleBlock(module, nn.Identity()))(batch()).sum().backward()
    assert module.kept is kept
    assert not kept.requires_grad
