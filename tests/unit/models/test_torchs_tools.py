"""torch's own tools around reversible blocks: they work, or are refused in a sentence."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from hotlap.models import reversible
from hotlap.models.reversible import ReversibleBlock, ReversibleSequential

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own


def branch():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh())


def both():
    """The same blocks, once keeping activations and once not."""
    torch.manual_seed(0)
    blocks = [ReversibleBlock(branch(), branch()) for _ in range(3)]
    return nn.Sequential(*blocks), ReversibleSequential(*copy.deepcopy(blocks))


def batch():
    return torch.randn(2, 8, generator=torch.Generator().manual_seed(1))


def step_flops(model, *, steps):
    """Of the last one."""
    for _ in range(steps):
        with FlopCounterMode(display=False) as counter:
            model(batch().requires_grad_()).square().sum().backward()
    return counter.get_total_flops()


def test_a_step_is_four_units_of_work_where_plain_blocks_take_three():
    plain, reversible = (step_flops(model, steps=3) for model in both())
    assert plain > 0
    assert 3 * reversible == 4 * plain


def test_a_step_that_is_proven_runs_the_forward_pass_once_more():
    plain, reversible = (step_flops(model, steps=1) for model in both())
    assert 3 * reversible == 5 * plain


@pytest.mark.filterwarnings("ignore:Converting a tensor:torch.jit.TracerWarning")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_trace_is_that_of_plain_blocks(wanted):
    plain, reversible = both()
    with torch.set_grad_enabled(wanted):
        traced = torch.jit.trace(reversible, (batch(),))
    torch.testing.assert_close(traced(2 * batch()), plain(2 * batch()))


def test_an_exported_program_can_be_trained():
    plain, reversible = both()
    exported = torch.export.export(reversible, (batch(),), strict=False).module()
    for model in (plain, exported):
        model(batch()).square().sum().backward()
    expected, found = ({n: p.grad for n, p in m.named_parameters()} for m in (plain, exported))
    torch.testing.assert_close(found, expected)


TRANSFORMS = {
    "gradient": lambda model, x: torch.func.grad(lambda y: model(y).sum())(x),
    "by sample": lambda model, x: torch.vmap(model)(x[:, None]),
    "forward": lambda model, x: torch.func.jvp(model, (x,), (x,)),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms_of_functions_are_refused_where_gradients_may_be_asked_for(transform):
    plain, reversible = both()
    transform(plain, batch())
    with pytest.raises(RuntimeError, match=r"torch\.func's transforms .* into an nn\.Sequential"):
        transform(reversible, batch())
    with torch.no_grad():
        found, expected = (torch.vmap(model)(batch()[:, None]) for model in (reversible, plain))
    torch.testing.assert_close(found, expected)


def test_gradients_in_forward_mode_are_refused():
    _, model = both()
    with forward_ad.dual_level():
        given = forward_ad.make_dual(batch(), batch())
        with pytest.raises(RuntimeError, match="forward mode cannot go through a Reversible"):
            model(given)


def test_copies_of_data_parallel_are_refused_where_they_are_trained():
    """They are made for each step, on several GPUs, and their parameters are none."""
    _, model = both()
    replica = model._replicate_for_data_parallel()
    with pytest.raises(RuntimeError, match="use DistributedDataParallel"):
        replica(batch())
    with torch.no_grad():
        torch.testing.assert_close(replica(batch()), model(batch()))


def test_a_cuda_graph_of_its_training_is_refused(monkeypatch):
    """No generator tells its state while one is captured; without gradients none is asked."""
    _, model = both()
    monkeypatch.setattr(reversible, "captured", lambda tensor: True)
    with pytest.raises(RuntimeError, match=r"CUDA graph cannot be captured .* into an nn\.Sequent"):
        model(batch())
    with torch.no_grad():
        model(batch())
