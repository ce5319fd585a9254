"""The walk back through reversible blocks: layouts, what is asked for, what is refused."""

import copy

import pytest
import torch
from torch import nn

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential

LAYOUTS = {
    "as it is": lambda x: x,
    "tokens": lambda x: x.flatten(2).transpose(1, 2).contiguous().transpose(1, 2),
    "height and width exchanged": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "batch last": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "every second": lambda x: x.repeat_interleave(2, 3)[..., ::2],
    "rows": lambda x: x[..., 0, 0].t().contiguous().t(),
}


def same_blocks(*blocks):
    """Once keeping activations and once not."""
    return nn.Sequential(*blocks), ReversibleSequential(*copy.deepcopy(blocks))


def keeping(blocks, x):
    """The same sums, without parting and joining the halves between blocks: drawing is in the
    order of memory, and joining gives them another."""
    first, second = x.chunk(2, 1)
    second = second.clone()
    for block in blocks:
        first = first + block.f(second)
        second = second + block.g(first)
    return torch.cat((first, second), 1)


def tanh():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh())


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("count", [1, 3])
def test_dropout_meets_the_same_numbers_whatever_the_layout_of_the_input(layout, count):
    torch.manual_seed(0)
    x = layout(torch.randn(3, 8, 5, 4, dtype=torch.float64)).requires_grad_()

    def branch():
        kind = [nn.Linear, nn.Linear, nn.Linear, nn.Conv1d, nn.Conv2d][x.dim()]
        sizes = (4, 4) if kind is nn.Linear else (4, 4, 1)
        return nn.Sequential(nn.Dropout(0.5), kind(*sizes), nn.Tanh(), nn.Dropout(0.3)).double()

    model = ReversibleSequential(*(ReversibleBlock(branch(), branch()) for _ in range(count)))
    found = []
    for run in (lambda: keeping(model, x), lambda: model(x)):
        torch.manual_seed(1)
        found.append(torch.autograd.grad(run().square().sum(), [x, *model.parameters()]))
    torch.testing.assert_close(found[1], found[0])


def squared(model, x):
    return model(x).square().sum()


ASKED = {
    "hessian": lambda model, x: torch.autograd.functional.hessian(lambda z: squared(model, z), x),
    "product": lambda model, x: torch.autograd.functional.hvp(lambda z: squared(model, z), x, x),
    "of the parameters": lambda model, x: torch.autograd.grad(
        torch.autograd.grad(squared(model, x), x, create_graph=True)[0].square().sum(),
        list(model.parameters()),
        allow_unused=True,
    ),
    "of the input": lambda model, x: torch.autograd.grad(
        torch.autograd.grad(squared(model, x), list(model.parameters()), create_graph=True)[
            0
        ].sum(),
        x,
        allow_unused=True,
    ),
    "into some": lambda model, x: (
        torch.autograd.grad(squared(model, x), x, create_graph=True)[0]
        .square()
        .sum()
        .backward(inputs=list(model.parameters()))
    ),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_gradients_of_gradients_are_refused_whoever_asks_for_them(ask):
    plain, reversible = same_blocks(ReversibleBlock(tanh(), tanh()))
    x = torch.randn(2, 8, requires_grad=True)
    ask(plain, x)
    with pytest.raises(RuntimeError, match="gradients of gradients cannot go through"):
        ask(reversible, x)


def test_a_graph_of_the_first_gradients_may_be_kept():
    plain, reversible = same_blocks(ReversibleBlock(tanh(), tanh()))
    x = torch.randn(2, 8, requires_grad=True)
    found = []
    for model in (plain, reversible):
        head = torch.ones((), requires_grad=True)
        (first,) = torch.autograd.grad((squared(model, x) * head).sin(), head, create_graph=True)
        found.append(torch.autograd.grad(first, head))  # it does not go through the blocks
    torch.testing.assert_close(found[1], found[0])


def test_what_leads_to_the_input_does_not_keep_it():
    model = ReversibleSequential(ReversibleBlock(tanh(), tanh()))
    x = torch.randn(2, 8, requires_grad=True)
    given = x * 2
    made = model(given)
    anchor = made.grad_fn.anchor
    assert anchor.numel() == 1
    assert anchor.untyped_storage().nbytes() <= 16
    kept = [made.grad_fn.saved_tensors[0].untyped_storage().data_ptr()]
    assert given.untyped_storage().data_ptr() not in kept


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("frozen", [(), ("0.f",), ("0.f", "0.g"), ("1.f", "1.g"), ("2.g",)])
def test_gradients_are_computed_only_where_someone_before_asks_for_them(wanted, frozen):
    torch.manual_seed(0)
    plain, reversible = same_blocks(*(ReversibleBlock(tanh(), tanh()) for _ in range(3)))
    x = torch.randn(2, 8)
    for model in (plain, reversible):
        for name in frozen:
            model.get_submodule(name).requires_grad_(False)
        squared(model, x.requires_grad_(wanted)).backward()
    expected, found = ([one.grad for one in model.parameters()] for model in (plain, reversible))
    assert [one is None for one in found] == [one is None for one in expected]
    there = [[one for one in grads if one is not None] for grads in (found, expected)]
    torch.testing.assert_close(*there)


def test_the_first_branch_may_write_into_what_it_keeps_where_the_input_needs_no_gradient():
    torch.manual_seed(0)
    first = nn.Sequential(nn.Tanh(), nn.Dropout(0.3, inplace=True), nn.Linear(4, 4))
    plain, reversible = same_blocks(ReversibleBlock(first, nn.Identity()))
    x = torch.randn(2, 8)
    for model in (plain, reversible):
        torch.manual_seed(1)
        squared(model, x).backward()
    torch.testing.assert_close(*(model[0].f[2].weight.grad for model in (plain, reversible)))


def test_the_inverse_refuses_what_the_forward_pass_refuses():
    y = torch.randn(2, 8, 3, 3)
    before = y.clone()
    inplace = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 4, 1))
    with pytest.raises(RuntimeError, match="writes into its input"):
        ReversibleBlock(inplace, inplace).inverse(y)
    assert torch.equal(y, before)
    pooled = nn.AdaptiveAvgPool2d(1)
    with pytest.raises(ValueError, match="must keep the shape"):
        ReversibleBlock(pooled, pooled).inverse(y)


def test_whole_numbers_and_functions_are_refused_by_name():
    with pytest.raises(TypeError, match=r"f is a function; it must be an nn\.Module"):
        ReversibleBlock(lambda x: x, nn.Identity())
    looked_up = nn.Embedding(10, 1)
    model = ReversibleSequential(ReversibleBlock(nn.Sequential(looked_up, nn.Flatten()), tanh()))
    with pytest.raises(TypeError, match=r"an input of torch\.int64 cannot be computed"):
        model(torch.ones(2, 8, dtype=torch.long))


class Logging(nn.Module):
    """Notes what its backward pass sees, as people do who look for gradients that explode."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.log = []
        self.register_buffer("norm", torch.zeros(1))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        made = self.linear(x)
        if made.requires_grad:
            made.register_hook(self.note)
        return made

    def note(self, gradient):
        self.log.append(gradient.norm().item())
        self.norm = gradient.norm().reshape(1)


def test_what_backward_hooks_write_on_a_module_stays():
    torch.manual_seed(0)
    plain, reversible = same_blocks(ReversibleBlock(Logging(), nn.Linear(4, 4)))
    x = torch.randn(2, 8)
    for model in (plain, reversible):
        model[0].g.register_full_backward_hook(
            lambda module, given, made: setattr(module, "gradient_norm", made[0].norm().item())
        )
        for _ in range(3):
            squared(model, x).backward()
    first, second = plain[0], reversible[0]
    assert second.f.log == pytest.approx(first.f.log)
    assert len(second.f.log) == 3
    assert second.f.calls == first.f.calls == 3
    torch.testing.assert_close(second.f.norm, first.f.norm)
    assert second.g.gradient_norm == pytest.approx(first.g.gradient_norm)
