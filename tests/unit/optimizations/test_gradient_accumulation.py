"""gradient-accumulation: the same updates as the whole batch, from its parts."""

import pytest

from hotlap.optimizations import gradient_accumulation

PARTS = {"gradient-accumulation": {"parts": 4}}
DATA = """
torch.manual_seed(3)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
updates = []
optimizer.register_step_post_hook(lambda *_: updates.append(1))
loader = DataLoader(data, batch_size=16)
sizes = []

def finish():
    told["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
    told["updates"] = len(updates)
    told["sizes"] = sorted(set(sizes))
"""


def both(train, script, *, updates):
    """Under it and without it: the same number of updates, to the same weights."""
    plain, run = train({}, DATA + script + "finish()\n"), train(PARTS, DATA + script + "finish()\n")
    assert (plain.told["sizes"], run.told["sizes"]) == ([16], [4])
    assert (plain.told["updates"], run.told["updates"]) == (updates, updates)
    assert run.told["weights"] == pytest.approx(plain.told["weights"], abs=1e-5)
    assert run.done["gradient-accumulation"]["status"] == "applied"
    return plain.told, run.told


@pytest.mark.parametrize("clears", ["optimizer.zero_grad()", "model.zero_grad()"])
@pytest.mark.parametrize("first", [True, False])
def test_the_weights_are_those_of_the_whole_batch(train, clears, first):
    both(
        train,
        f"""
for epoch in range(2):
    for x, y in loader:
        sizes.append(len(x))
        {clears if first else ""}
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        {"" if first else clears}
""",
        updates=8,
    )


@pytest.mark.parametrize(
    "loss",
    [
        'nn.MSELoss(reduction="sum")(model(x), y)',
        'nn.functional.smooth_l1_loss(model(x), y, reduction="sum") - 0.1 * model(x).sum()',
        'nn.MSELoss(reduction="sum")(model(x), y) / len(x)',
    ],
)
def test_a_summed_loss_is_summed_over_the_parts(train, loss):
    both(
        train,
        f"""
for group in optimizer.param_groups:
    group["lr"] = 0.001
for x, y in loader:
    sizes.append(len(x))
    optimizer.zero_grad()
    ({loss}).backward()
    optimizer.step()
""",
        updates=4,
    )


def test_batches_of_a_batch_sampler_are_left_whole(train):
    run = train(
        PARTS,
        """
from torch.utils.data import BatchSampler, SequentialSampler

data = TensorDataset(torch.randn(64, 4))
sampler = BatchSampler(SequentialSampler(data), 16, False)
told["sizes"] = [len(x) for (x,) in DataLoader(data, batch_sampler=sampler)]
""",
    )
    assert run.told["sizes"] == [16] * 4
    why = "the loader's batches are made by a batch sampler"
    assert run.done["gradient-accumulation"] == {"status": "refused", "detail": why}


def test_a_loader_that_got_another_sampler_since_it_was_made_trains_as_before(train):
    """As loaders that never end do: no batch of theirs comes in parts, so every step is one."""
    script = (
        DATA
        + """
class Again:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)

object.__setattr__(loader, "batch_sampler", Again(loader.batch_sampler))
iterator = loader._get_iterator()
for number in range(8):
    x, y = next(iterator)
    sizes.append(len(x))
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
finish()
"""
    )
    plain = train({}, script)
    run = train(PARTS, script)
    assert run.told == plain.told
    assert (run.told["sizes"], run.told["updates"]) == ([16], 8)
    why = "the loader's batches are made by a batch sampler"
    assert run.done["gradient-accumulation"] == {"status": "refused", "detail": why}


def test_several_backward_passes_for_each_step_are_one_part(train):
    both(
        train,
        """
for x, y in loader:
    sizes.append(len(x))
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    (0.1 * model(x).square().mean()).backward()
    first, second = model(x).mean(), model(-x).mean()
    torch.autograd.backward([first, second], [torch.tensor(0.5), None])
    optimizer.step()
""",
        updates=4,
    )


def test_gradients_are_clipped_when_they_are_whole(train):
    plain, run = both(
        train,
        """
norms = []
for x, y in loader:
    sizes.append(len(x))
    optimizer.zero_grad()
    (10 * nn.functional.mse_loss(model(x), y)).backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
    optimizer.step()
told["norms"] = norms
""",
        updates=4,
    )
    assert run["norms"][3::4] == pytest.approx(plain["norms"], rel=1e-4)


def test_a_step_with_a_closure_is_a_part_too(train):
    both(
        train,
        """
for x, y in loader:
    sizes.append(len(x))

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 0
""",
        updates=4,
    )


def test_a_class_with_a_step_of_its_own_is_counted_once(train):
    both(
        train,
        """
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)

optimizer = Mine(model.parameters(), lr=0.1, momentum=0.9)
optimizer.register_step_post_hook(lambda *_: updates.append(1))
for x, y in loader:
    sizes.append(len(x))
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
updates = updates[::2]  # torch runs the hook for both classes
""",
        updates=4,
    )


def test_a_loader_made_anew_from_one_that_was_changed_is_not_changed_again(train):
    run = train(
        PARTS,
        DATA
        + """
sampler = torch.utils.data.RandomSampler(data)
again = DataLoader(data, batch_size=loader.batch_size, sampler=sampler)
told["again"] = [again.batch_size, len(next(iter(again))[0]), len(again)]
shared = DataLoader(data, batch_sampler=loader.batch_sampler)  # as accelerate does
told["shared"] = [len(next(iter(shared))[0]), len(shared)]
told["pickled"] = type(pickle.loads(pickle.dumps(loader.batch_size))).__name__
told["copied"] = len(next(iter(copy.deepcopy(loader)))[0])
told["shown"] = f"{loader.batch_size} {loader.batch_size!s} {json.dumps(loader.batch_size)}"
""",
    )
    assert run.told == {
        "again": [16, 4, 16],
        "shared": [4, 16],
        "pickled": "int",
        "copied": 4,
        "shown": "16 16 16",
    }
    assert run.done["gradient-accumulation"]["detail"] == "batch_size=16 in 4 parts"


def test_a_batch_that_cannot_be_divided_is_left_whole(train):
    script = """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = TensorDataset(torch.ones(12, 4))
        for (x,) in DataLoader(data, LOADER):
            optimizer.zero_grad()
            model(x).mean().backward()
            told.setdefault("gradient", model.weight.grad.flatten().tolist())
            optimizer.step()
        told["size"] = len(x)
        """
    for arguments in ("batch_size=6", "batch_sampler=[list(range(6)), list(range(6, 12))]"):
        run = train(PARTS, script.replace("LOADER", arguments))
        assert run.told == {"gradient": [1.0] * 4, "size": 6}
        assert run.done["gradient-accumulation"]["status"] == "refused"


@pytest.mark.parametrize("samples", [40, 33, 49])
def test_a_loader_has_the_length_it_says(train, samples):
    """A last batch of one sample has one part."""
    run = train(
        PARTS,
        f"""
        class Stream(IterableDataset):
            def __iter__(self): return iter(range({samples}))
            def __len__(self): return {samples}

        for name, loader in (
            ("data", DataLoader(range({samples}), batch_size=16, shuffle=True)),
            ("dropped", DataLoader(range({samples}), batch_size=16, shuffle=True, drop_last=True)),
            ("stream", DataLoader(Stream(), batch_size=16)),
        ):
            told[name] = [len(loader), len(list(loader))]
        """,
    )
    assert all(first == second for first, second in run.told.values()), run.told


@pytest.mark.parametrize("first", [True, False])
def test_gradients_the_script_drops_by_itself_are_put_back_within_a_round(train, first):
    clears = "for p in model.parameters(): p.grad = None"
    both(
        train,
        f"""
for epoch in range(2):
    for x, y in loader:
        sizes.append(len(x))
        {clears if first else ""}
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        {"" if first else clears}
""",
        updates=8,
    )


def left(train, script):
    """It withdraws: what is trained is what would be without it."""
    script = DATA + script + "finish()\n"
    plain, run = train({}, script), train(PARTS, script)
    assert run.told == plain.told
    said = run.done["gradient-accumulation"]
    assert said["status"] == "refused"
    return said["detail"]


def test_two_optimizers_are_left_alone(train):
    why = left(
        train,
        """
other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
for x, y in loader:
    sizes.append(len(x))
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    other.step()
told["length"] = len(loader)
""",
    )
    assert why == "several optimizers step in turns"


def test_a_script_that_scales_its_loss_is_left_alone(train):
    why = left(
        train,
        """
scaler = torch.amp.GradScaler("cpu")
for x, y in loader:
    sizes.append(len(x))
    optimizer.zero_grad()
    scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
""",
    )
    assert why == "the script scales its loss by itself"


def test_gradients_overwritten_between_two_steps_end_it(train):
    run = train(
        PARTS,
        DATA
        + """
for epoch in range(2):
    for x, y in loader:
        sizes.append(len(x))
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        for p in model.parameters():
            p.grad.zero_()
    told["last"] = [len(x), len(loader)]
""",
    )
    assert run.told["last"] == [16, 4]
    why = "the script writes to its gradients between two steps"
    assert run.done["gradient-accumulation"] == {"status": "refused", "detail": why}


def test_a_script_that_updates_by_itself_is_left_alone(train):
    run = train(
        PARTS,
        """
        weight = torch.ones(1, requires_grad=True)
        for (x,) in DataLoader(TensorDataset(torch.ones(16, 1)), batch_size=8):
            (weight * x).mean().backward()
            told.setdefault("gradient", weight.grad.tolist())
        """,
    )
    assert run.told["gradient"] == [1.0]
    assert run.done["gradient-accumulation"]["status"] == "refused"


def test_by_hand_gradients_are_cleared_after_the_step():
    lines = gradient_accumulation.by_hand({"parts": 2}).splitlines()
    assert lines[-2:] == ["optimizer.step()", "optimizer.zero_grad()"]


def test_a_resumed_epoch_leaves_parts_out_as_it_has_counted_them(train):
    """As accelerate does it: the training was stopped after 6 of the 16 parts of an epoch."""
    script = """
class Rest:
    def __init__(self, batch_sampler, left_out):
        self.batch_sampler, self.left_out = batch_sampler, left_out

    def __iter__(self):
        return (batch for at, batch in enumerate(self.batch_sampler) if at >= self.left_out)

    def __len__(self):
        return len(self.batch_sampler) - self.left_out

rest = DataLoader(data, batch_sampler=Rest(loader.batch_sampler, LEFT_OUT))
told["length"] = len(rest)
for x, y in rest:
    sizes.append(len(x))
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
    plain, run = both(train, script.replace("LEFT_OUT", "1 if 'again' in told else 0"), updates=4)
    assert (plain["length"], run["length"]) == (4, 16)
    run = train(PARTS, DATA + script.replace("LEFT_OUT", "6") + "finish()\n")
    assert (run.told["length"], run.told["updates"], run.told["sizes"]) == (10, 2, [4])
    assert "except" not in run.done["gradient-accumulation"]


def test_the_parts_of_a_last_batch_keep_their_share_where_others_were_left_out(train):
    run = train(
        PARTS,
        """
        from hotlap.optimizations.parts import in_parts

        class Rest:
            def __init__(self, batch_sampler): self.batch_sampler = batch_sampler
            def __iter__(self): return (one for n, one in enumerate(self.batch_sampler) if n > 2)

        loader = DataLoader(range(22), batch_size=16)
        epoch = iter(in_parts(Rest(loader.batch_sampler), lambda: True))
        told["parts"] = [len(part) for part in epoch]
        told["shares"] = list(epoch.shares)
        """,
    )
    assert run.told["parts"] == [4, 1, 2, 1, 2]
    assert run.told["shares"] == pytest.approx([1 / 4, 1 / 6, 1 / 3, 1 / 6, 1 / 3])
