"""activation-checkpointing: the same learning to the bit with fewer activations, or left alone."""

import contextlib
import copy
import weakref

import numpy
import pytest
import torch
from checkpointed import Net, Unit, applied, both, trained
from torch import nn

from hotlap.models import proving, repeating
from hotlap.optimizations import activation_checkpointing, double_backward
from hotlap.optimizations.training import Training


@pytest.fixture(autouse=True)
def no_other_source(monkeypatch):
    """Other tests are no part of the script."""
    monkeypatch.setattr(double_backward, "in_source", lambda: None)


def kept_bytes(model, x):
    """What autograd keeps for the backward pass, but for parameters."""
    own = {one.untyped_storage().data_ptr() for one in model.parameters()}
    seen = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(x).sum().backward()
    return sum(seen.values())


@pytest.mark.parametrize("every", [1, 2])
def test_learning_is_the_same_to_the_bit(every):
    """BatchNorm, dropout, Python's random numbers, a buffer that is read, a counter."""
    plain, with_it, done = both(Net(), every=every)
    assert with_it == plain
    assert done == {"status": "applied", "detail": f"{6 // every} Unit"}


def test_statistics_and_counters_count_a_batch_once():
    model = Net()
    applied(model)
    trained(model, steps=4)
    for block in model.blocks:
        assert int(block.norm.num_batches_tracked) == 4
        assert block.calls == 4


def test_it_is_the_same_under_autocast():
    plain, with_it, _ = both(Net(), around=lambda: torch.autocast("cpu", torch.bfloat16))
    assert with_it == plain


def test_what_a_block_keeps_for_the_loss_has_its_gradient():
    def loss(model, made):
        return made.square().mean() + sum(block.aux for block in model.blocks)

    plain, with_it, _ = both(Net(), loss=loss)
    assert with_it == plain


def test_gradients_that_add_up_over_parts_of_a_batch_are_the_same():
    def loss(model, made):
        made.square().mean().backward()
        return model(torch.randn(8, 16)).square().mean()

    plain, with_it, _ = both(Net(), loss=loss)
    assert with_it == plain


def test_a_graph_that_is_kept_can_be_gone_through_twice():
    def loss(model, made):
        found = made.square().mean()
        found.backward(retain_graph=True)
        return found

    plain, with_it, _ = both(Net(), loss=loss)
    assert with_it == plain


def test_a_block_that_is_called_twice_in_a_step_is_as_it_was_in_each():
    class Twice(Net):
        def forward(self, x):
            return super().forward(x) + self.head(self.blocks[0](x.tanh()))

    plain, with_it, _ = both(Twice())
    assert with_it == plain


def test_nothing_but_the_inputs_of_blocks_is_kept():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(16, 512), nn.Tanh(), nn.Linear(512, 16))

        def forward(self, x):
            return x + self.layers(x)

    model, x = Net(Wide, 8), torch.randn(32, 16)
    plain = kept_bytes(model, x)
    half, whole = copy.deepcopy(model), copy.deepcopy(model)
    applied(half, 2)
    applied(whole)
    assert kept_bytes(whole, x) < 0.2 * plain
    assert 0.4 * plain < kept_bytes(half, x) < 0.7 * plain


def test_evaluation_is_left_as_it_is():
    model = Net().eval()
    applied(model)
    with torch.no_grad():
        assert model(torch.randn(4, 16)).grad_fn is None
    assert [block.calls for block in model.blocks] == [1] * 6


def test_names_copies_and_checkpoints_stay_what_they_were():
    model = Net()
    before = list(model.state_dict())
    applied(model)
    assert list(model.state_dict()) == before
    fresh = Net()
    fresh.load_state_dict(model.state_dict())
    assert trained(copy.deepcopy(model)) == trained(fresh) == trained(model)


def test_arguments_by_name_may_be_called_like_those_of_checkpoint():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x=None, *, use_reentrant=None, debug=0.0):
            return self.layer(x).tanh() + use_reentrant + debug

    class Net2(Net):
        def forward(self, x):
            for block in self.blocks:
                x = block(x=x, use_reentrant=x, debug=1.0)
            return self.head(x)

    plain, with_it, _ = both(Net2(Named))
    assert with_it == plain


def test_outputs_of_any_nesting_are_looked_at():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x, seen=()):
            return {"x": self.layer(x).tanh(), "seen": (*seen, x.mean())}

    class Net3(Net):
        def forward(self, x):
            seen = ()
            for block in self.blocks:
                x, seen = block(x, seen).values()
            return self.head(x) + sum(seen)

    plain, with_it, _ = both(Net3(Pair))
    assert with_it == plain


def test_weights_that_blocks_share_and_weights_that_are_computed_are_as_they_were():
    model = Net()
    model.blocks[1].first.weight = model.blocks[0].first.weight
    for block in model.blocks[2:]:
        nn.utils.parametrizations.spectral_norm(block.second)
    plain, with_it, done = both(model)
    assert with_it == plain
    assert done["detail"] == "6 Unit"


def test_an_exception_in_a_block_leaves_it_as_it_would_be_without():
    class Failing(Unit):
        def forward(self, x):
            made = super().forward(x)
            if self.calls == 3:
                raise ValueError("not today")
            return made

    class Trying(Net):
        def forward(self, x):
            with contextlib.suppress(ValueError):
                return super().forward(x)
            return self.head(x)

    plain, with_it, _ = both(Trying(Failing))
    assert with_it == plain


def test_nothing_of_a_step_is_kept_after_it():
    model, seen = Net(), []
    applied(model)
    for _ in range(5):
        x = torch.randn(8, 16)
        loss = model(x).square().mean()
        loss.backward()
        seen += [weakref.ref(x), weakref.ref(loss)]
        del x, loss
        for block in model.blocks:
            block.aux = None
    assert [one() for one in seen] == [None] * 10


# What is left alone, or refused ------------------------------------------------------------------


class FromNumpy(Unit):
    def forward(self, x):
        return super().forward(x) * float(numpy.random.rand())


COUNTED = []


class Outside(Unit):
    def forward(self, x):
        COUNTED.append(1)
        return super().forward(x) + len(COUNTED)


@pytest.mark.parametrize("kind", [FromNumpy, Outside])
def test_a_block_that_does_something_else_the_second_time_is_left_as_it_is(kind):
    model = Net(kind)
    training = Training(torch, None)
    activation_checkpointing.apply(training, model, 1, weakref.WeakSet())
    x = torch.randn(8, 16, dtype=torch.float32)
    model(x).square().mean().backward()
    done = training.done["activation-checkpointing"]
    assert done["until"] == f"{kind.__name__} does something else when it runs again" + (
        " with the same input"
    )
    calls = [block.calls for block in model.blocks]
    assert calls == [1] * 6  # a run that was for nothing is not counted
    model(x).square().mean().backward()
    assert [block.calls for block in model.blocks] == [2] * 6


def test_gradients_of_the_step_in_which_that_is_found_are_those_of_what_was_computed():
    """Each number drawn from numpy is another one: the gradient must be that of the last run."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))
            self.factor = 0.0

        def forward(self, x):
            self.factor = float(numpy.random.rand())
            return x * self.weight * self.factor

    model = nn.Sequential(Scaled(), Scaled())
    applied(model)
    x = torch.ones(1, requires_grad=True)
    made = model(x)
    made.backward()
    assert x.grad.item() == pytest.approx(made.item())
    assert model[0].weight.grad.item() == pytest.approx(made.item())


def test_a_block_that_writes_into_its_input_is_refused_with_that_reason():
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x):
            return self.layer(x.mul_(2))

    model = Net(Writing)
    applied(model)
    with pytest.raises(RuntimeError, match="Writing writes into its own input"):
        model(torch.randn(8, 16))


def test_an_input_that_is_written_to_later_is_told_and_not_computed_with():
    class After(Net):
        def forward(self, x):
            x = self.head(x).sum() + x
            made = self.blocks[0](x)
            x.add_(1.0)
            return self.head(made)

    model = After(count=2)
    applied(model)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        model(torch.randn(8, 16)).sum().backward()


def test_blocks_with_hooks_are_left_as_they_are():
    model = Net()
    seen = []
    model.blocks[0].first.register_forward_hook(lambda *told: seen.append(1))
    assert applied(model)["detail"] == "5 Unit"
    model.blocks[1].norm.register_forward_hook(lambda *told: seen.append(1))  # after training began
    trained(model, steps=1)
    assert len(seen) == 2
    for block in model.blocks:
        block.second.register_forward_hook(lambda *told: None)
    assert applied(model)["detail"] == activation_checkpointing.HOOKED


def test_a_script_that_takes_gradients_of_gradients_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(double_backward, "in_source", lambda: "train.py:7")
    done = applied(Net())
    assert done["status"] == "refused"
    assert done["detail"] == "the script takes gradients of gradients (train.py:7)"


def test_transforms_of_torch_func_run_as_before():
    model = Net(lambda: nn.Sequential(nn.Linear(16, 16), nn.Tanh()))
    assert applied(model)["detail"] == "6 Sequential"
    found = torch.func.vmap(torch.func.grad(lambda x: model(x).sum()))(torch.randn(4, 16))
    assert found.shape == (4, 16)


def test_what_goes_into_a_cuda_graph_keeps_its_activations(monkeypatch):
    seen = []
    monkeypatch.setattr(proving, "captured", lambda tensor: bool(seen))
    training, model = Training(torch, None), Net()
    activation_checkpointing.apply(training, model, 1, weakref.WeakSet())
    trained(model, steps=1)
    assert "until" not in training.done["activation-checkpointing"]
    seen.append("a graph")
    monkeypatch.setattr(repeating, "generators", None)  # none of them tells its state there
    model(torch.randn(8, 16)).sum().backward()
    assert all(one.grad is not None for one in model.parameters())
    assert training.done["activation-checkpointing"]["until"] == activation_checkpointing.CAPTURED


def test_a_model_without_blocks_is_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    assert applied(model) == {
        "status": "refused",
        "detail": "Sequential is not made of blocks that repeat",
    }


def test_layers_of_a_transformer_learn_the_same():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(layer, 3)

        def forward(self, x):
            return self.encoder(x[:, None])

    plain, with_it, done = both(Tokens())
    assert with_it == plain
    assert done["detail"] == "3 TransformerEncoderLayer"
