"""gradient-accumulation: the same updates as the whole batch, from its parts."""

import pytest

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

other = optimizer  # of the class below, so both are watched
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


def test_a_schedule_stepped_with_each_batch_counts_updates(train):
    plain, run = both(
        train,
        """
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=8)
rates = []
for epoch in range(2):
    for x, y in loader:
        sizes.append(len(x))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()
    rates.append(schedule.get_last_lr()[0])
told["rates"] = rates
""",
        updates=8,
    )
    assert run["rates"] == pytest.approx(plain["rates"])


def test_a_schedule_made_between_two_updates_begins_all_the_same(train):
    run = train(
        PARTS,
        DATA
        + """
for x, y in loader:
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    break
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5)
told["rates"] = [schedule.get_last_lr()[0], optimizer.param_groups[0]["lr"]]
""",
    )
    assert run.told["rates"] == [0.05, 0.05]


def test_a_schedule_stepped_with_each_epoch_counts_epochs(train):
    """Also where an epoch ends between two updates."""
    run = train(
        PARTS,
        DATA
        + """
from torch.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR

data = TensorDataset(torch.randn(40, 4), torch.randn(40, 1))  # ten parts: two updates and a half
parts = [ConstantLR(optimizer, 1.0, 1), ExponentialLR(optimizer, 0.5)]
schedule = SequentialLR(optimizer, parts, milestones=[1])
rates = []
for epoch in range(4):
    for x, y in DataLoader(data, batch_size=16):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    schedule.step()
    rates.append(optimizer.param_groups[0]["lr"])
told["rates"], told["updates"] = rates, len(updates)
""",
    )
    assert run.told["rates"] == pytest.approx([0.1, 0.05, 0.025, 0.0125])
    assert run.told["updates"] == 10


def test_a_loader_made_anew_from_one_that_was_changed_is_not_changed_again(train):
    run = train(
        PARTS,
        DATA
        + """
sampler = torch.utils.data.RandomSampler(data)
told["again"] = DataLoader(data, batch_size=loader.batch_size, sampler=sampler).batch_size
""",
    )
    assert run.told["again"] == 4


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
