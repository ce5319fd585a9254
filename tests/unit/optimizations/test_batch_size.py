"""batch-size: larger batches, and a learning rate that follows."""

import pytest

SCRIPT = """
data = TensorDataset(torch.ones(64, 1))
loader = DataLoader(data, batch_size=4, shuffle=True)
told["size"] = loader.batch_size
told["evaluation"] = DataLoader(data, batch_size=4).batch_size
model = nn.Linear(1, 1, bias=False)
moves = []

def step(optimizer):
    before = model.weight.item()
    optimizer.zero_grad()
    model(torch.ones(1, 1)).sum().backward()  # a gradient of one: SGD moves by its rate
    optimizer.step()
    moves.append(round(before - model.weight.item(), 6))
"""


def moved(train, rule, script):
    recipe = {"batch-size": {"factor": 4, "learning-rate": rule}}
    run = train(recipe, SCRIPT + script + "told['moves'] = moves\n")
    assert (run.told["size"], run.told["evaluation"]) == (16, 4)
    assert run.done["batch-size"] == {"status": "applied", "detail": "batch_size=16"}
    return run.told


@pytest.mark.parametrize(("rule", "times"), [("linear", 4), ("sqrt", 2), ("keep", 1)])
def test_the_rate_follows_its_rule(train, rule, times):
    told = moved(train, rule, "step(torch.optim.SGD(model.parameters(), lr=0.1))\n")
    assert told["moves"] == pytest.approx([0.1 * times])


def test_each_group_has_its_own_rate(train):
    told = moved(
        train,
        "linear",
        """
other = nn.Linear(1, 1)
groups = [{"params": other.parameters(), "lr": 7.0}, {"params": model.parameters(), "lr": 0.2}]
optimizer = torch.optim.SGD(groups, lr=0.1)
step(optimizer)
told["rates"] = [group["lr"] for group in optimizer.param_groups]
""",
    )
    assert told["moves"] == pytest.approx([0.8])
    assert told["rates"] == [7.0, 0.2]  # as the script knows them


def test_the_rate_follows_whatever_sets_it(train):
    told = moved(
        train,
        "linear",
        """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
for _ in range(3):
    step(optimizer)
    schedule.step()
for group in optimizer.param_groups:
    group["lr"] = 0.3
step(optimizer)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
cycle = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=0.5, total_steps=10, cycle_momentum=False
)
step(optimizer)
told["cycle"] = cycle.get_last_lr()[0]
state = optimizer.state_dict()
told["saved"] = state["param_groups"][0]["lr"]
again = torch.optim.SGD(model.parameters(), lr=1.0)
again.load_state_dict(state)
step(again)
""",
    )
    first, second, third, by_hand, cycle, loaded = told["moves"]
    assert [first, second, third] == pytest.approx([0.4, 0.2, 0.1])
    assert by_hand == pytest.approx(1.2)
    assert cycle == loaded == pytest.approx(4 * told["cycle"], abs=1e-6)
    assert told["saved"] == told["cycle"]  # a checkpoint can go on without the recipe


def test_a_loader_made_anew_from_one_that_was_changed_is_not_changed_again(train):
    """Lightning does so to put its own sampler in."""
    told = moved(
        train,
        "keep",
        """
sampler = torch.utils.data.RandomSampler(data)
again = DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=sampler)
told["again"] = again.batch_size
told["next epoch"] = DataLoader(data, batch_size=4, shuffle=True).batch_size
""",
    )
    assert (told["again"], told["next epoch"]) == (16, 16)


def test_a_step_within_a_step_or_one_that_fails_multiplies_once(train):
    told = moved(
        train,
        "linear",
        """
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)

optimizer = Mine(model.parameters(), lr=0.1)
step(optimizer)
try:
    optimizer.step(lambda: 1 / 0)
except ZeroDivisionError:
    pass
step(optimizer)
told["rate"] = optimizer.param_groups[0]["lr"]
""",
    )
    assert told["moves"] == pytest.approx([0.4, 0.4])
    assert told["rate"] == 0.1


def test_the_rate_of_an_optimizer_within_another_one_is_multiplied_once(train):
    told = moved(
        train,
        "linear",
        """
class Around(torch.optim.Optimizer):
    def __init__(self, params, base):
        super().__init__(params, {"lr": 0.1})
        self.base = base(self.param_groups, lr=0.1)
        self.param_groups = self.base.param_groups

    def step(self):
        self.base.step()
        told["within"] = self.param_groups[0]["lr"]

optimizer = Around(model.parameters(), torch.optim.SGD)
step(optimizer)
step(optimizer)
told["rate"] = optimizer.param_groups[0]["lr"]
""",
    )
    assert told["moves"] == pytest.approx([0.4, 0.4])
    assert (told["within"], told["rate"]) == (pytest.approx(0.4), 0.1)


def test_batches_of_a_batch_sampler_are_left_alone(train):
    run = train(
        {"batch-size": {"factor": 4, "learning-rate": "linear"}},
        """
        weight = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([weight], lr=0.25)
        data = TensorDataset(torch.ones(8, 1))
        batches = [[0, 1], [2, 3]]
        told["sampler"] = [len(x) for (x,) in DataLoader(data, batch_sampler=batches)]
        told["single"] = [list(x.shape) for (x,) in DataLoader(data, batch_size=None)][:1]
        weight.sum().backward()
        optimizer.step()
        told["weight"] = weight.item()
        """,
    )
    assert run.told == {"sampler": [2, 2], "single": [[1]], "weight": 0.75}  # the rate too
    assert run.done["batch-size"]["status"] == "refused"


def test_an_epoch_smaller_than_a_larger_batch_keeps_its_own(train):
    run = train(
        {"batch-size": {"factor": 2}},
        """
        data = TensorDataset(torch.ones(10, 1))
        told["batches"] = len(list(DataLoader(data, batch_size=8, shuffle=True, drop_last=True)))
        """,
    )
    assert run.told["batches"] == 1
    why = "an epoch of 10 samples has no batch of 16"
    assert run.done["batch-size"] == {"status": "refused", "detail": why}


def test_a_loader_made_anew_around_the_larger_batches_has_them_already(train):
    """As accelerate does, also with a share or the rest of an epoch; and around a cache."""
    run = train(
        {"batch-size": {"factor": 4, "learning-rate": "keep"}, "concurrent-fetch": {"threads": 2}},
        """
        class Share:
            def __init__(self, batch_sampler): self.batch_sampler = batch_sampler
            def __iter__(self): return iter(self.batch_sampler)

        class Data(torch.utils.data.Dataset):
            def __len__(self): return 64
            def __getitem__(self, index): return torch.ones(1)

        loader = DataLoader(Data(), batch_size=4, shuffle=True)
        again = DataLoader(loader.dataset, batch_sampler=loader.batch_sampler)
        share = DataLoader(again.dataset, batch_sampler=Share(again.batch_sampler))
        told["sizes"] = [len(next(iter(one))) for one in (loader, again, share)]
        sampler = torch.utils.data.RandomSampler(loader.dataset)
        last = DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=sampler)
        told["size"] = last.batch_size
        """,
    )
    assert run.told == {"sizes": [16, 16, 16], "size": 16}
    assert run.done["batch-size"] == {"status": "applied", "detail": "batch_size=16"}
