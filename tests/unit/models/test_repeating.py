"""What a branch did in the forward pass it does again, or it is refused; never something else."""

import copy
import functools
import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential
from hotlap.models.revnet import RevNet


def branch():
    return nn.Sequential(nn.BatchNorm2d(4), nn.Tanh(), nn.Conv2d(4, 4, 3, padding=1))


def both(make=branch, count=3):
    """The same blocks, once keeping activations and once not."""
    torch.manual_seed(0)
    plain = nn.Sequential(*[ReversibleBlock(make(), make()) for _ in range(count)]).double()
    return plain, ReversibleSequential(*copy.deepcopy(list(plain)))


def batch():
    return torch.randn(2, 8, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same(plain, reversible):
    expected, found = gradients(plain), gradients(reversible)
    assert all(one is not None for one in expected.values())
    torch.testing.assert_close(found, expected)


# Evaluation ------------------------------------------------------------------------------------


class Means(nn.Module):
    """Puts a new mean where the old one was, also when it is evaluated."""

    def __init__(self, large=False):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)
        self.register_buffer("mean", torch.zeros(20_000 if large else 1))
        self.large = large

    def forward(self, x):
        if not (self.large and self.training):
            self.mean = x.detach().mean().expand_as(self.mean).clone()
        return self.convolution(x - self.mean[0])


@pytest.mark.parametrize("large", [False, True])
def test_buffers_made_in_inference_mode_do_no_harm(large):
    plain, reversible = both(lambda: Means(large))
    for model in (plain, reversible):
        with torch.inference_mode():
            model.eval()(batch())
        model.train()(batch().requires_grad_(not large)).square().mean().backward()
    assert_same(plain, reversible)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluation_gives_what_plain_blocks_give(mode):
    plain, reversible = both()
    with mode():
        torch.testing.assert_close(reversible.eval()(batch()), plain.eval()(batch()))
        assert RevNet(38, units=1).eval()(torch.randn(1, 3, 32, 32)).shape == (1, 10)


def test_in_inference_mode_writing_into_the_input_does_no_harm():
    blocks = [
        ReversibleBlock(nn.Sequential(nn.ReLU(inplace=act), nn.Conv2d(4, 4, 1)), nn.Conv2d(4, 4, 1))
        for act in (True, False)
    ]
    blocks[1].load_state_dict(blocks[0].state_dict())
    x = batch().float()
    with torch.inference_mode():
        given = x.clone()
        expected = blocks[1](given)
        for model in (blocks[0], ReversibleSequential(blocks[0])):
            torch.testing.assert_close(model(given), expected)
            assert torch.equal(given, x)


def test_a_refused_module_has_not_touched_the_users_input():
    bad = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1)).double()
    x = batch()
    before = x.clone()
    with pytest.raises(RuntimeError, match="writes into its input"):
        ReversibleSequential(ReversibleBlock(bad, branch().double()))(x)
    assert torch.equal(x, before)
    with torch.no_grad(), pytest.raises(RuntimeError, match="writes into its input"):
        ReversibleBlock(bad, branch().double())(x)


# Parameters ------------------------------------------------------------------------------------


def test_hooks_on_parameters_run_once_with_the_whole_gradient():
    plain, reversible = both()
    calls = []
    for model in (plain, reversible):
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: calls.append(1) or gradient * 0.5)
        model(batch()).square().sum().backward()
    assert len(calls) == 2 * len(gradients(plain))
    assert_same(plain, reversible)


def test_parameters_lent_by_functional_call_get_their_gradients():
    plain, reversible = both()
    for model in (plain, reversible):
        lent = {name: one * 1.5 for name, one in model.named_parameters()}
        torch.func.functional_call(model, lent, (batch(),)).square().sum().backward()
    assert_same(plain, reversible)


def test_a_parameter_changed_before_the_backward_pass_is_refused():
    _, reversible = both()
    y = reversible(batch())
    with torch.no_grad():
        reversible[1].f[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match=r"weight of F .* modified by an inplace operation"):
        y.sum().backward()


def test_statistics_changed_before_the_backward_pass_are_refused_where_they_are_read():
    _, reversible = both()
    y = reversible.eval()(batch())
    reversible[0].g[0].running_mean.add_(1)
    with pytest.raises(RuntimeError, match="buffer running_mean of G"):
        y.sum().backward()


class Conditioned(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.inner = nn.Conv2d(4, 4, 1)
        self.embedding = [embedding]

    def forward(self, x):
        return self.inner(x) * self.embedding[0]


@pytest.mark.parametrize("computed", [False, True])
def test_a_tensor_from_elsewhere_that_needs_a_gradient_is_refused(computed):
    embedding = torch.ones(4, 1, 1, requires_grad=True)
    given = embedding * 2 if computed else embedding
    model = ReversibleSequential(ReversibleBlock(Conditioned(given), nn.Conv2d(4, 4, 1)))
    with pytest.raises(RuntimeError, match=r"Conditioned uses a tensor of shape \(4, 1, 1\)"):
        model(batch().float()).sum().backward()
    fixed = ReversibleBlock(Conditioned(given.detach()), nn.Conv2d(4, 4, 1))
    ReversibleSequential(fixed)(batch().float()).sum().backward()


class Turned(torch.autograd.Function):
    """Keeps its input under the name that autograd has for leaves."""

    @staticmethod
    def forward(ctx, x):
        ctx.variable = x
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Reversal(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return Turned.apply(self.inner(x))


def test_a_function_of_the_users_is_not_taken_for_a_tensor_from_elsewhere():
    plain, reversible = both(Reversal)
    for model in (plain, reversible):
        model(batch()).square().sum().backward()
    assert_same(plain, reversible)


def test_lazy_modules_have_to_know_their_shape_first():
    model = ReversibleSequential(ReversibleBlock(nn.LazyConv2d(4, 1), nn.Conv2d(4, 4, 1)))
    x = batch().float()
    with pytest.raises(RuntimeError, match=r"run this once under torch\.no_grad"):
        model(x)
    with torch.no_grad():
        model(x)
    model(x).sum().backward()
    assert model[0].f.weight.grad.shape == (4, 4, 1, 1)


# Modes and random numbers ----------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_a_mode_that_changes_before_the_backward_pass_is_the_forward_passes(first):
    plain, reversible = both()
    for model in (plain, reversible):
        y = model.train(first)(batch())
        model.train(not first)
        y.square().sum().backward()
        assert all(one.training is not first for one in model.modules())
    assert_same(plain, reversible)


class Drawing(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.inner = nn.Conv2d(4, 4, 1)
        self.draw = draw

    def forward(self, x):
        return self.inner(x) * self.draw()


@pytest.mark.parametrize("draw", [lambda: random.random(), lambda: torch.rand(()).item()])
def test_random_numbers_are_drawn_again(draw):
    plain, reversible = both(lambda: Drawing(draw))
    after = []
    for model in (plain, reversible):
        random.seed(0), torch.manual_seed(0)
        model(batch()).square().sum().backward()
        after.append(draw())
    assert_same(plain, reversible)
    assert after[0] == after[1]


def test_drawing_from_numpys_global_generator_is_refused():
    _, reversible = both(lambda: Drawing(lambda: np.random.random_sample()))
    with pytest.raises(RuntimeError, match="draw from numpy's global random numbers"):
        reversible(batch())
    with torch.no_grad():
        reversible(batch())


# The container ---------------------------------------------------------------------------------


def test_parts_and_sums_stay_reversible():
    _, model = both()
    for made, count in ((model[:2], 2), (model + model, 6), (model * 2, 6), (2 * model, 6)):
        assert isinstance(made, ReversibleSequential)
        assert len(made) == count
    with pytest.raises(TypeError, match="Linear is no ReversibleBlock"):
        model.append(nn.Linear(2, 2))(batch())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_modules_are_refused_where_they_are_trained():
    scripted = torch.jit.script(nn.Conv2d(4, 4, 1).double())
    model = ReversibleSequential(ReversibleBlock(nn.Sequential(scripted), nn.Identity()))
    with torch.no_grad():
        model(batch())
    with pytest.raises(TypeError, match=r"F \(Sequential\) is or holds .* use the module that it"):
        model(batch())


class Halving(ReversibleBlock):
    def forward(self, x):
        return super().forward(x) * 0.5


def test_what_would_not_be_called_is_refused_or_told():
    with pytest.raises(TypeError, match="Halving has a forward of its own"):
        ReversibleSequential(Halving(branch(), branch()))
    _, model = both()
    model[1].register_forward_hook(lambda module, given, made: made * 0.5)
    with pytest.warns(UserWarning, match="hooks of block 1 are not called"):
        model(batch())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both()[1](batch())


def test_blocks_that_keep_their_activations_have_a_float_stream_too():
    plain, reversible = both()
    plain, reversible, x = plain.float(), reversible.float(), batch().bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        one, other = plain(x), reversible(x)
    assert one.dtype == other.dtype == torch.float32
    torch.testing.assert_close(one, other)


class Casting(nn.Module):
    """Its weight as autocast had it before torch 2.10: cast once, with gradients or without."""

    def __init__(self, cache):
        super().__init__()
        self.weight, self.cast = nn.Parameter(torch.randn(4, 4)), functools.partial(_cast, cache)

    def forward(self, x):
        return torch.einsum("bchw,cd->bdhw", x.float(), self.cast(self.weight))


def _cast(cache, weight):
    if not torch.is_autocast_cache_enabled():
        return weight * 0.5
    return cache.setdefault(id(weight), weight * 0.5)


def test_weights_that_were_cast_without_gradients_get_theirs_all_the_same():
    cache = {}
    blocks = [ReversibleBlock(Casting(cache), Casting(cache)) for _ in range(2)]
    model = ReversibleSequential(*blocks)
    with torch.autocast("cpu", torch.bfloat16):  # and the backward pass in it, as some do
        model(batch().float()).square().mean().backward()
        assert torch.is_autocast_cache_enabled()
    assert all(one.grad is not None for one in model.parameters())


# What a branch draws from and what it uses, besides what it holds --------------------------------


class Masks(nn.Module):
    """Drops some of its input by numbers from a generator of its own."""

    def __init__(self, kind):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 1, 1, dtype=torch.float64))
        self.numbers = {
            "torch": lambda: torch.Generator().manual_seed(0),
            "python": lambda: random.Random(0),
            "numpy": lambda: np.random.default_rng(0),
            "old numpy": lambda: np.random.RandomState(0),
        }[kind]()

    def forward(self, x):
        if isinstance(self.numbers, torch.Generator):
            kept = torch.rand(x.shape, generator=self.numbers, dtype=x.dtype) > 0.5
        else:
            kept = torch.tensor([self.numbers.random() for _ in range(4)]).view(4, 1, 1) > 0.5
        return x * self.weight * kept


@pytest.mark.parametrize("kind", ["torch", "python", "numpy", "old numpy"])
def test_a_generator_that_a_branch_holds_draws_the_same_again(kind):
    plain = nn.Sequential(*[ReversibleBlock(Masks(kind), branch()) for _ in range(3)]).double()
    reversible = ReversibleSequential(
        *[ReversibleBlock(Masks(kind), copy.deepcopy(one.g)) for one in plain]
    ).double()
    for model in (plain, reversible):
        for _ in range(2):  # and goes on from where the forward pass left it
            model(batch()).square().sum().backward()
    assert_same(plain, reversible)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)
        self.factor = None

    def forward(self, x):
        made = self.convolution(x)
        return made if self.factor is None else made * self.factor


def scaled():
    return ReversibleSequential(ReversibleBlock(Scaled(), branch())).double()


def test_a_tensor_from_elsewhere_is_refused_whenever_it_comes():
    model, encoder = scaled(), nn.Linear(1, 1).double().requires_grad_(False)
    model[0].f.factor = encoder(torch.ones(1, dtype=torch.float64))
    model(batch()).sum().backward()
    encoder.requires_grad_(True)
    model[0].f.factor = encoder(torch.ones(1, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="neither its input nor a parameter"):
        model(batch()).sum().backward()


def test_a_tensor_from_elsewhere_is_refused_by_frozen_blocks_too():
    model = scaled().requires_grad_(False)
    assert not model(batch()).requires_grad
    model[0].f.factor = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="neither their input nor a parameter"):
        model(batch())
    with torch.no_grad():
        model(batch())


def test_a_backward_hook_of_a_block_is_warned_about():
    model = scaled()
    model[0].register_full_backward_hook(lambda *given: None)
    with pytest.warns(UserWarning, match="hooks of block 0 are not called"):
        model(batch())
