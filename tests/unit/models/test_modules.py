"""Modules of all kinds as F and G: what they count, hold and draw is as with plain blocks."""

import copy
import types

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential


def both(make, *, dtype=torch.float64, count=3):
    """The same blocks, once keeping activations and once not."""
    torch.manual_seed(0)
    plain = nn.Sequential(*[ReversibleBlock(make(), make()) for _ in range(count)]).to(dtype)
    return plain, ReversibleSequential(*copy.deepcopy(list(plain)))


def batch(dtype=torch.float64):
    return torch.randn(4, 8, 6, 6, dtype=dtype, generator=torch.Generator().manual_seed(1))


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def buffers(model):
    return dict(model.named_buffers())


# Statistics ------------------------------------------------------------------------------------


class Counts(nn.Module):
    def __init__(self, size=1):
        super().__init__()
        self.register_buffer("calls", torch.zeros(size))
        self.convolution = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        self.calls += 1
        return self.convolution(x) * self.calls[0]


class Averages(Counts):
    """Puts a new buffer in the place of the old one."""

    def forward(self, x):
        self.calls = 0.9 * self.calls + 0.1 * x.detach().mean()
        return self.convolution(x) * self.calls[0]


class Numbered(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.convolution = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        self.calls += 1
        return self.convolution(x) * self.calls


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("variance", torch.ones(4))
        self.convolution = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        normal = functional.batch_norm(x, self.mean, self.variance, training=self.training)
        return self.convolution(normal)


class Ghost(nn.BatchNorm2d):
    def forward(self, x):
        parts = [
            functional.batch_norm(
                part, self.running_mean, self.running_var, self.weight, self.bias, self.training
            )
            for part in x.chunk(2)
        ]
        return torch.cat(parts)


class Written(nn.BatchNorm2d):
    """A BatchNorm written by hand."""

    def forward(self, x):
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance, self.momentum)
            self.num_batches_tracked += 1
        return (x - mean[:, None, None]) / (variance[:, None, None] + self.eps).sqrt()


class Borrows(nn.Module):
    """Uses what a BatchNorm holds, and never calls it."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        self.convolution = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        norm = self.norm
        values = norm.running_mean, norm.running_var, norm.weight, norm.bias
        return self.convolution(functional.batch_norm(x, *values, self.training))


class Reads(Borrows):
    """Uses what a BatchNorm has counted, before and after it has."""

    def forward(self, x):
        before = self.norm.running_var.clone()[:, None, None]
        y = self.convolution(self.norm(x))
        return y * before + self.norm.running_var.clone()[:, None, None]


def read_by_a_hook():
    norm = nn.BatchNorm2d(4)
    norm.register_forward_hook(lambda one, given, made: made + one.running_var.mean())
    return nn.Sequential(norm, nn.Conv2d(4, 4, 1))


def read_by_a_forward_of_its_own():
    norm = nn.BatchNorm2d(4)
    norm.forward = types.MethodType(
        lambda one, x: nn.BatchNorm2d.forward(one, x) + one.running_var.mean(), norm
    )
    return nn.Sequential(norm, nn.Conv2d(4, 4, 1))


STATISTICS = {
    "batch_norm on a BatchNorm's buffers": Borrows,
    "a BatchNorm that is read": Reads,
    "a BatchNorm that is read by a hook": read_by_a_hook,
    "a counter": Counts,
    "an average": Averages,
    "a plain number": Numbered,
    "batch_norm on own buffers": Own,
    "ghost batches": lambda: nn.Sequential(Ghost(4), nn.Conv2d(4, 4, 1)),
    "by hand": lambda: nn.Sequential(Written(4, affine=False), nn.Conv2d(4, 4, 1)),
    "InstanceNorm": lambda: nn.Sequential(
        nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.Conv2d(4, 4, 1)
    ),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Conv2d(4, 4, 3, padding=1)),
    "BatchNorm": lambda: nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)),
}


@pytest.mark.parametrize("make", STATISTICS.values(), ids=STATISTICS)
def test_what_a_module_counts_it_counts_once(make):
    plain, reversible = both(make)
    for model in (plain, reversible):
        for _ in range(3):
            model(batch()).square().mean().backward()
    torch.testing.assert_close(buffers(reversible), buffers(plain))
    torch.testing.assert_close(gradients(reversible), gradients(plain))
    calls = [getattr(one[0].f, "calls", None) for one in (plain, reversible)]
    assert calls[0] == calls[1]


@pytest.mark.parametrize("make", [Borrows, Reads, read_by_a_hook, read_by_a_forward_of_its_own])
def test_another_forward_pass_may_come_before_the_backward_pass(make):
    plain, reversible = both(make)
    for model in (plain, reversible):
        y = model(batch())
        model(batch() * 2)
        y.square().mean().backward()
    torch.testing.assert_close(buffers(reversible), buffers(plain))
    torch.testing.assert_close(gradients(reversible), gradients(plain))


def test_a_graph_that_is_kept_starts_from_the_same_counts_each_time():
    plain, reversible = both(Counts)
    for model in (plain, reversible):
        loss = model(batch()).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
    torch.testing.assert_close(gradients(reversible), gradients(plain))


def test_a_large_buffer_that_changes_is_refused():
    _, reversible = both(lambda: Counts(100_000))
    with pytest.raises(RuntimeError, match="changes its buffer calls in the forward pass"):
        reversible(batch())


def test_a_buffer_that_two_modules_share_stays_one():
    def make():
        first, second = Counts(), Counts()
        second.calls = first.calls
        return nn.Sequential(first, second)

    plain, reversible = both(make)
    for model in (plain, reversible):
        model(batch()).square().mean().backward()
    torch.testing.assert_close(gradients(reversible), gradients(plain))


# Parameters ------------------------------------------------------------------------------------


def normalised():
    return nn.Sequential(nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=1))


@pytest.mark.parametrize("trained", [True, False])
def test_parameters_may_be_frozen_or_thawed_before_the_backward_pass(trained):
    plain, reversible = both(normalised)
    given = []
    for model in (plain, reversible):
        x = batch().requires_grad_()
        model.requires_grad_(trained)
        loss = model(x).square().mean()
        model.requires_grad_(not trained)
        loss.backward()
        given.append(x.grad)
        assert all(one.requires_grad is not trained for one in model.parameters())
        assert all(one.grad is None for one in model.parameters())
    torch.testing.assert_close(*given)


def test_weights_that_are_computed_once_for_several_calls_get_their_gradients():
    make = lambda: parametrizations.weight_norm(nn.Conv2d(4, 4, 3, padding=1))  # noqa: E731
    plain, reversible = both(make)
    for model in (plain, reversible):
        with parametrize.cached():
            (model(batch()).square().mean() + model(-batch()).square().mean()).backward()
    torch.testing.assert_close(gradients(reversible), gradients(plain))


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = normalised()

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def test_a_checkpoint_inside_a_branch_is_the_branch():
    plain, reversible = both(Checkpointed)
    kept = nn.Sequential(*copy.deepcopy(list(plain)))
    for block in kept:
        block.f, block.g = block.f.inner, block.g.inner
    for model in (kept, reversible):
        model(batch()).square().mean().backward()
    torch.testing.assert_close(list(gradients(reversible).values()), list(gradients(kept).values()))
    torch.testing.assert_close(list(buffers(reversible).values()), list(buffers(kept).values()))


# Gradients of gradients ------------------------------------------------------------------------


def test_gradients_of_gradients_are_refused_when_they_are_asked_for():
    _, reversible = both(normalised)
    stem = nn.Conv2d(8, 8, 1).double()
    x = batch().requires_grad_()
    (found,) = torch.autograd.grad(reversible(stem(x)).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"gradients of gradients cannot .* put its blocks"):
        (found.norm() - 1).square().backward()
    parameters = list(reversible.parameters())
    unused = torch.autograd.grad(reversible(x).sum(), parameters, create_graph=True)
    assert [one.shape for one in unused] == [one.shape for one in parameters]


# Random numbers --------------------------------------------------------------------------------

NUMBERS = torch.Generator()


class Masked(nn.Module):
    def __init__(self, where):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 1, 1))
        own = torch.Generator().manual_seed(0)
        self.where = where
        self.numbers = {"dict": {"drop": own}, "list": [[own]], "global": None}[where]

    def forward(self, x):
        if self.where == "global":
            drawn = NUMBERS
        else:
            drawn = self.numbers["drop"] if self.where == "dict" else self.numbers[0][0]
        return x * self.weight * (torch.rand(x.shape, generator=drawn, dtype=x.dtype) > 0.5)


@pytest.mark.parametrize("where", ["dict", "list", "global"])
def test_generators_are_found_where_a_module_has_them(where):
    NUMBERS.manual_seed(0)
    found = []
    for container in (nn.Sequential, ReversibleSequential):
        NUMBERS.manual_seed(0)
        model = container(*[ReversibleBlock(Masked(where), Masked(where)) for _ in range(3)])
        for _ in range(2):
            model.double()(batch()).square().mean().backward()
        found.append(gradients(model))
    torch.testing.assert_close(*found)


# Precision -------------------------------------------------------------------------------------


class Wider(nn.Module):
    """Has its weight, and its result, in a wider type than what it is given."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.convolution = nn.Conv2d(4, 4, 1).bfloat16()

    def forward(self, x):
        return self.weight[:, None, None] * self.convolution(x.bfloat16()).float()


class Strict(nn.Module):
    """Refuses what is not the type it was made for."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1).bfloat16()

    def forward(self, x):
        return self.convolution(x).float()


def test_a_branch_that_widens_its_half_is_given_the_same_type_again():
    torch.manual_seed(0)
    plain = nn.Sequential(ReversibleBlock(Strict(), Wider()))
    reversible = ReversibleSequential(*copy.deepcopy(list(plain)))
    for model in (plain, reversible):
        model(batch(torch.bfloat16)).square().mean().backward()
    torch.testing.assert_close(gradients(reversible), gradients(plain), rtol=0.05, atol=0.05)
