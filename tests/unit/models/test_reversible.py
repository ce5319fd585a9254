"""Reversible blocks: the gradients of plain autograd, without the activations."""

import copy
import gc
import os
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential


def branch(channels=4, *, norm=True, dropout=0.0, act=nn.SiLU):
    layers = [nn.Conv2d(channels, channels, 3, padding=1)]
    layers += [nn.BatchNorm2d(channels)] if norm else []
    layers += [act()]
    layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Conv2d(channels, channels, 3, padding=1))


def blocks(count=3, **options):
    torch.manual_seed(0)
    return [ReversibleBlock(branch(**options), branch(**options)) for _ in range(count)]


def both(count=3, *, dtype=torch.float64, **options):
    """The same blocks, once keeping activations and once not."""
    plain = nn.Sequential(*blocks(count, **options)).to(dtype)
    return plain, ReversibleSequential(*copy.deepcopy(list(plain)))


def batch(*shape, dtype=torch.float64, seed=1):
    return torch.randn(*(shape or (2, 8, 6, 6)), dtype=dtype, generator=generator(seed))


def generator(seed):
    return torch.Generator().manual_seed(seed)


def gradients(model, x, *, steps=1):
    for _ in range(steps):
        torch.manual_seed(5)
        model(x).square().sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def assert_close(found, expected, **tolerance):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **tolerance)


@pytest.mark.parametrize("options", [{}, {"norm": False}, {"act": nn.ReLU}, {"dropout": 0.4}])
def test_gradients_are_those_of_plain_autograd(options):
    plain, reversible = both(**options)
    x, other = (batch().requires_grad_() for _ in range(2))
    assert_close(gradients(reversible, other), gradients(plain, x))
    torch.testing.assert_close(other.grad, x.grad)


def test_the_output_is_the_same_and_the_input_is_not_touched():
    plain, reversible = both()
    x = batch()
    before = x.clone()
    torch.testing.assert_close(reversible(x), plain(x))
    assert torch.equal(x, before)


def test_an_input_that_needs_no_gradient_still_gives_the_parameters_theirs():
    plain, reversible = both()
    assert_close(gradients(reversible, batch()), gradients(plain, batch()))


def test_gradcheck_in_double():
    _, reversible = both(2, norm=False)
    x = batch(1, 8, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(reversible, (x,))


def test_batchnorm_counts_a_batch_once():
    plain, reversible = both()
    for model in (plain, reversible):
        gradients(model, batch(), steps=3)
    for one, other in zip(plain.buffers(), reversible.buffers(), strict=True):
        torch.testing.assert_close(one, other)
    norm = next(one for one in reversible.modules() if isinstance(one, nn.BatchNorm2d))
    assert norm.num_batches_tracked == 3
    assert norm.track_running_stats


def test_batchnorm_in_evaluation_uses_what_it_has_counted():
    plain, reversible = both()
    for model in (plain, reversible):
        gradients(model, batch())
        model.eval()
        model.zero_grad()
    assert_close(gradients(reversible, batch()), gradients(plain, batch()))
    for one, other in zip(plain.buffers(), reversible.buffers(), strict=True):
        assert torch.equal(one, other)


def test_dropout_draws_the_same_again_and_leaves_the_users_random_numbers_alone():
    plain, reversible = both(dropout=0.5)
    drawn = []
    for model in (plain, reversible):
        gradients(model, batch())
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)


def test_gradient_accumulation_adds_up():
    plain, reversible = both(norm=False)
    assert_close(gradients(reversible, batch(), steps=3), gradients(plain, batch(), steps=3))


def test_autograd_grad_gives_them_without_touching_grad():
    plain, reversible = both(norm=False)
    found = torch.autograd.grad(reversible(batch()).sum(), list(reversible.parameters()))
    expected = torch.autograd.grad(plain(batch()).sum(), list(plain.parameters()))
    assert_close(found, expected)
    assert all(parameter.grad is None for parameter in reversible.parameters())


def test_parameters_that_are_frozen_get_none_and_the_others_theirs():
    plain, reversible = both(norm=False)
    for model in (plain, reversible):
        model[1].f[0].weight.requires_grad_(False)
        model(batch()).sum().backward()
    assert reversible[1].f[0].weight.grad is None
    for one, other in zip(plain.parameters(), reversible.parameters(), strict=True):
        if one.requires_grad:
            torch.testing.assert_close(other.grad, one.grad)


def test_a_module_that_is_used_twice_gets_both_gradients():
    shared = branch(norm=False).double()
    make = lambda: [ReversibleBlock(shared, branch(norm=False).double()) for _ in range(2)]  # noqa: E731
    torch.manual_seed(0)
    plain = nn.Sequential(*make())
    reversible = ReversibleSequential(*plain)
    expected = gradients(plain, batch())
    expected = [one.clone() for one in expected]
    plain.zero_grad()
    assert_close(gradients(reversible, batch()), expected)


@pytest.mark.parametrize("layout", ["channels last", "strided", "expanded"])
def test_inputs_of_any_layout(layout):
    plain, reversible = both()
    x = batch()
    if layout == "channels last":
        x = x.to(memory_format=torch.channels_last)
        reversible = reversible.to(memory_format=torch.channels_last)
    elif layout == "strided":
        x = batch(2, 8, 6, 12)[..., ::2]
    else:
        x = batch(1, 8, 6, 6).expand(2, -1, -1, -1)
    assert_close(gradients(reversible, x), gradients(plain, x))


@pytest.mark.parametrize("shape", [(3, 8), (3, 8, 5)])
def test_other_numbers_of_dimensions(shape):
    layer = lambda: nn.Linear(4, 4) if len(shape) == 2 else nn.Conv1d(4, 4, 1)  # noqa: E731
    torch.manual_seed(0)
    plain = nn.Sequential(*[ReversibleBlock(layer(), layer()) for _ in range(2)]).double()
    reversible = ReversibleSequential(*copy.deepcopy(list(plain)))
    assert_close(gradients(reversible, batch(*shape)), gradients(plain, batch(*shape)))


def test_autocast_is_the_forward_passes_and_the_stream_stays_float():
    plain, reversible = both(dtype=torch.float32)
    seen = []
    for model in (plain, reversible):
        model[0].f.register_forward_hook(lambda module, given, made: seen.append(made.dtype))
        with torch.autocast("cpu", torch.bfloat16):
            y = model(batch(dtype=torch.float32))
        y.float().square().mean().backward()  # outside autocast, as scripts do it
    assert set(seen) == {torch.bfloat16}
    assert len(seen) == 4  # in both passes, and in the first steps once more
    assert y.dtype == torch.float32
    for one, other in zip(plain.parameters(), reversible.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=0.1, atol=0.02)


def test_a_lower_precision_coming_in_becomes_a_float_stream_under_autocast():
    _, reversible = both(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = reversible(batch(dtype=torch.bfloat16))
    assert y.dtype == torch.float32
    y.sum().backward()
    assert reversible[0].f[0].weight.grad is not None


def test_without_gradients_nothing_is_kept():
    plain, reversible = both()
    with torch.no_grad():
        y = reversible(batch())
    assert not y.requires_grad
    torch.testing.assert_close(y, plain(batch()))


def saved_bytes(model, x):
    seen = {}

    def pack(tensor):
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)
    parameters = {one.untyped_storage().data_ptr() for one in model.parameters()}
    return sum(size for key, size in seen.items() if key not in parameters), y


def live_tensors():
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            one.untyped_storage().data_ptr(): one.untyped_storage().nbytes()
            for one in gc.get_objects()
            if isinstance(one, torch.Tensor)
            and one.layout == torch.strided
            and not isinstance(one, FakeTensor)  # of an export in another test
        }
    return sum(found.values())


def test_what_is_kept_is_the_same_at_4_and_at_100_blocks():
    sizes, lives = [], []
    x = batch(dtype=torch.float32)
    for count in (4, 100):
        model = ReversibleSequential(*blocks(count, norm=False))
        before = live_tensors()
        saved, y = saved_bytes(model, x)
        sizes.append(saved)
        lives.append(live_tensors() - before)
        del model, y
    assert sizes[0] == sizes[1] <= 2 * x.numel() * 4
    assert lives[1] <= lives[0] + x.numel() * 4
    plain = nn.Sequential(*blocks(4, norm=False))
    assert saved_bytes(plain, x)[0] > 10 * sizes[0]


def test_a_block_can_be_inverted():
    (block,) = blocks(1, norm=False)
    block = block.double()
    x = batch()
    torch.testing.assert_close(block.inverse(block(x)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_hold_at_a_depth_of_100(dtype):
    plain, reversible = both(100, dtype=dtype, norm=False)
    for model in (plain, reversible):
        for parameter in model.parameters():
            parameter.data.mul_(0.3)  # as initialisations for depth do
    x = batch(dtype=dtype)
    found, expected = gradients(reversible, x), gradients(plain, x)
    error = max(
        float((one - other).norm() / other.norm())
        for one, other in zip(found, expected, strict=True)
    )
    assert error < (1e-2 if dtype == torch.float32 else 1e-9)


class WritesIntoInput(nn.Module):
    def forward(self, x):
        return torch.relu_(x)


@pytest.mark.parametrize("place", ["F", "G"])
def test_modules_that_write_into_their_input_are_refused(place):
    good, bad = branch(), nn.Sequential(WritesIntoInput(), nn.Conv2d(4, 4, 1))
    block = ReversibleBlock(bad, good) if place == "F" else ReversibleBlock(good, bad)
    with pytest.raises(RuntimeError, match=f"{place} .* writes into its input"):
        ReversibleSequential(block)(batch(dtype=torch.float32))


def test_writing_into_ones_own_results_does_no_harm():
    layers = lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1))  # noqa: E731
    torch.manual_seed(0)
    plain = nn.Sequential(*[ReversibleBlock(layers(), layers()) for _ in range(3)]).double()
    reversible = ReversibleSequential(*copy.deepcopy(list(plain)))
    assert_close(gradients(reversible, batch()), gradients(plain, batch()))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.ones(2, 7, 4, 4), "no two halves"),
        (torch.ones(8), "no two halves"),
    ],
)
def test_inputs_without_halves_are_named(x, said):
    with pytest.raises(ValueError, match=said):
        ReversibleSequential(*blocks())(x)


def test_a_branch_that_changes_the_shape_is_named():
    block = ReversibleBlock(nn.Conv2d(4, 6, 1), branch())
    for model in (block, ReversibleSequential(block)):
        with pytest.raises(ValueError, match=r"F made \(2, 6, 6, 6\) of a half"):
            model(batch(dtype=torch.float32))


def test_a_branch_that_makes_no_tensor_is_named():
    class Two(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(TypeError, match="G made a tuple of its half"):
        ReversibleSequential(ReversibleBlock(branch(), Two())).double()(batch(2, 8, 4, 4))


def test_only_reversible_blocks_can_be_put_in():
    with pytest.raises(TypeError, match="Conv2d is no ReversibleBlock"):
        ReversibleSequential(nn.Conv2d(4, 4, 1))


def test_an_empty_one_hands_its_input_on():
    x = batch()
    assert ReversibleSequential()(x) is x


def test_a_branch_without_parameters_passes_gradients_on():
    class Nothing(nn.Module):
        def forward(self, x):
            return torch.zeros_like(x)

    model = ReversibleSequential(ReversibleBlock(Nothing(), nn.Identity()))
    x = batch().requires_grad_()
    model(x).sum().backward()
    first, second = x.grad.chunk(2, 1)
    assert torch.equal(first, torch.full_like(first, 2.0))
    assert torch.equal(second, torch.ones_like(second))


def test_it_is_right_inside_a_compiled_model():
    plain, reversible = both(2)
    model = torch.compile(nn.Sequential(nn.Identity(), reversible), backend="eager")
    assert_close(gradients(model, batch()), gradients(plain, batch()))


def test_a_block_by_itself_is_compiled_in_one_piece():
    (block,) = blocks(1)
    x = batch(dtype=torch.float32)
    compiled = torch.compile(block, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), block(x))


def test_it_can_be_copied_and_saved():
    _, reversible = both()
    again = ReversibleSequential(*blocks()).double()
    again.load_state_dict(reversible.state_dict())
    torch.testing.assert_close(copy.deepcopy(reversible).eval()(batch()), again.eval()(batch()))


RANK = """
import sys, torch
from torch import distributed, nn
sys.path.insert(0, {folder!r})
from test_reversible import assert_close, batch, both
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
plain, reversible = both(2, norm=False)
model = nn.parallel.DistributedDataParallel(reversible)
for _ in range(2):
    model(batch(seed=rank)).square().sum().backward()
for seed in (0, 1, 0, 1):
    (plain(batch(seed=seed)).square().sum() / 2).backward()
assert_close([p.grad for p in reversible.parameters()], [p.grad for p in plain.parameters()])
"""


def test_ranks_average_their_gradients(tmp_path):
    code = RANK.format(folder=os.path.dirname(__file__))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, str(rank), str(tmp_path / "meet")],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], told
