"""`Recipe.apply`: the recipe on objects at hand, for people who own their loop."""

import pytest

from hotlap.errors import UsageError
from hotlap.recipes import Recipe

BEGIN = """
from hotlap.recipes import Recipe

def apply(changes, model=None, optimizer=None, loader=None):
    return Recipe.of(changes).apply(model, optimizer, loader)
"""


def test_model_optimizer_and_loader_are_changed_by_it(train):
    run = train(
        {},
        BEGIN
        + """
changes = {
    "channels-last": {}, "precision-bf16": {}, "fused-optimizer": {},
    "loader-workers": {"workers": 1}, "persistent-workers": {}, "threads": {"threads": 2},
}
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(8, 3, 8, 8))
loader = DataLoader(data, batch_size=4, shuffle=True, drop_last=True)
made = apply(changes, model, optimizer, loader)
told["same"] = [made[0] is model, made[1] is optimizer, made[2] is loader]
loader = made[2]
told["loader"] = [loader.num_workers, loader.persistent_workers, loader.batch_size]
told["loader"] += [loader.drop_last, type(loader.sampler).__name__, loader.dataset is data]
told["fused"] = optimizer.param_groups[0]["fused"]
told["threads"] = torch.get_num_threads()
with torch.no_grad():
    output = model(torch.randn(2, 3, 8, 8))
told["output"] = str(output.dtype)
told["layout"] = model[0].weight.is_contiguous(memory_format=torch.channels_last)
told["call"] = torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl
""",
    )
    assert run.told == {
        "same": [True, True, False],
        "loader": [1, True, 4, True, "RandomSampler", True],
        "fused": True,
        "threads": 2,
        "output": "torch.float32",
        "layout": True,
        "call": True,
    }


def test_an_empty_recipe_hands_everything_back(train):
    run = train(
        {},
        BEGIN
        + """
things = nn.Linear(1, 1), None, DataLoader(TensorDataset(torch.ones(2)))
told["same"] = [a is b for a, b in zip(apply({}, *things), things)]
""",
    )
    assert run.told["same"] == [True] * 3


def test_scaled_losses_leave_true_gradients_on_an_optimizer_at_hand(train):
    run = train(
        {},
        BEGIN
        + """
model = nn.Linear(2, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # it wraps the optimizer's step
apply({"precision-fp16": {}}, model, optimizer)
(model(torch.ones(1, 2)).sum() * 0.01).backward()
told["gradient"] = model.weight.grad.flatten().tolist()
optimizer.step()
before = model.weight.flatten().tolist()
optimizer.zero_grad()
(model(torch.ones(1, 2)).sum() * 4.0).backward()
optimizer.step()
schedule.step()
told["skipped"] = model.weight.flatten().tolist() == before
""",
    )
    assert run.told["gradient"] == pytest.approx([0.01, 0.01], rel=1e-2)
    assert run.told["skipped"]


def test_parts_of_a_batch_make_one_update_of_an_optimizer_at_hand(train):
    script = (
        BEGIN
        + """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
data = TensorDataset(torch.arange(16.0).reshape(8, 2) / 16)
loader = DataLoader(data, batch_size=4)
_, _, loader = apply(CHANGES, model, optimizer, loader)
sizes = []
for (x,) in loader:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    schedule.step()
    sizes.append(len(x))
told["sizes"] = sizes
told["rate"] = optimizer.param_groups[0]["lr"]
told["weights"] = model.weight.flatten().tolist() + model.bias.tolist()
"""
    )
    plain = train({}, script.replace("CHANGES", "{}")).told
    told = train({}, script.replace("CHANGES", "{'gradient-accumulation': {'parts': 2}}")).told
    assert (plain["sizes"], told["sizes"]) == ([4, 4], [2, 2, 2, 2])
    assert told["rate"] == plain["rate"] == 0.025
    assert told["weights"] == pytest.approx(plain["weights"], abs=1e-6)


def test_a_larger_batch_brings_its_rate(train):
    run = train(
        {},
        BEGIN
        + """
model = nn.Linear(1, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(8, 1)), batch_size=2)
changes = {"batch-size": {"factor": 2, "learning-rate": "linear"}}
_, _, loader = apply(changes, model, optimizer, loader)
before = model.weight.item()
for (x,) in loader:
    model(x).mean().backward()
    optimizer.step()
    break
told["moved"] = before - model.weight.item()
told["size"] = len(x)
""",
    )
    assert run.told["moved"] == pytest.approx(0.2)
    assert run.told["size"] == 4


@pytest.mark.parametrize(
    "made",
    [
        "DataLoader(data, batch_size=None)",
        "DataLoader(data, batch_sampler=[[0, 1], [2, 3, 4]])",
        "DataLoader(Stream(), batch_size=2)",
        "DataLoader(data, 3, num_workers=1, prefetch_factor=4, multiprocessing_context='fork')",
        "PassesOn(data, batch_size=3)",
        "Own('mine', data, 3)",
    ],
)
def test_a_loader_of_any_kind_is_made_anew_with_the_same_batches(train, made):
    run = train(
        {},
        BEGIN
        + f"""
class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(8.0))

class PassesOn(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

class Own(DataLoader):
    def __init__(self, name, dataset, batch_size, pin_memory=False):
        self.name = name
        super().__init__(dataset, batch_size, pin_memory=pin_memory)

data = torch.arange(8.0)
before = {made}
gpus = getattr(torch, "accelerator", None) or torch.cuda
really, gpus.is_available = gpus.is_available, lambda: True
_, _, after = apply({{"pinned-memory": {{}}}}, loader=before)
gpus.is_available = really
"""
        + """
warnings.simplefilter("ignore")  # there is nothing to pin for
told["anew"] = after is not before and after.pin_memory and type(after) is type(before)
told["batches"] = [[batch.tolist() for batch in loader] for loader in (before, after)]
told["workers"] = [before.num_workers, after.num_workers]
told["ahead"] = [before.prefetch_factor, after.prefetch_factor]
""",
    )
    assert run.told["anew"]
    before, after = run.told["batches"]
    assert before == after
    for name in ("workers", "ahead"):
        assert len(set(run.told[name])) == 1


def test_a_loader_that_cannot_be_made_anew_is_a_usage_error_that_says_what_to_do(train):
    run = train(
        {},
        BEGIN
        + """
from hotlap.errors import UsageError

class Own(DataLoader):
    def __init__(self, path):
        super().__init__(torch.ones(len(path)))

try:
    apply({"loader-workers": {"workers": 3}}, loader=Own("path"))
except UsageError as problem:
    told["problem"] = str(problem)
""",
    )
    assert "Own cannot be made anew" in run.told["problem"]
    assert "num_workers=3" in run.told["problem"]


def test_an_optimizer_that_does_not_know_a_flag_is_left_alone(train):
    run = train(
        {},
        BEGIN
        + """
model = nn.Linear(1, 1)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1)
apply({"fused-optimizer": {}}, optimizer=optimizer)
told["group"] = [optimizer.param_groups[0].get(name) for name in ("fused", "foreach")]
""",
    )
    assert run.told["group"] == [None, None]


def test_an_optimizer_with_a_step_of_its_own_is_left_alone(train):
    run = train(
        {},
        BEGIN
        + """
class Own(torch.optim.Adam):
    def step(self, closure=None):
        pass

optimizer = Own(nn.Linear(1, 1).parameters(), lr=0.1)
apply({"fused-optimizer": {}}, optimizer=optimizer)
told["fused"] = optimizer.param_groups[0]["fused"]
""",
    )
    assert run.told["fused"] is None


ONE_BY_ONE = """
model, data = nn.Linear(2, 1), TensorDataset(torch.arange(16.0).reshape(8, 2) / 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4)
if HOW == "at once":
    _, _, loader = apply(CHANGES, model, optimizer, loader)
else:
    apply(CHANGES, model)
    apply(CHANGES, optimizer=optimizer)
    _, _, loader = apply(CHANGES, loader=loader)
if HOW == "again":
    model, optimizer, loader = apply(CHANGES, model, optimizer, loader)
    _, _, validation = apply(CHANGES, loader=DataLoader(data, batch_size=2))
for (x,) in loader:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
told["weights"] = model.weight.flatten().tolist() + model.bias.tolist()
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"gradient-accumulation": {"parts": 2}},
        {"batch-size": {"factor": 2, "learning-rate": "linear"}},
        {"precision-fp16": {}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_several_calls_do_what_one_does(train, changes):
    script = BEGIN + f"CHANGES = {changes}\nHOW = 'HOW'\n" + ONE_BY_ONE
    found = [
        train({}, script.replace("'HOW'", repr(how))).told["weights"]
        for how in ("at once", "one by one", "again")
    ]
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_a_scaler_that_was_made_before_is_known(train):
    run = train(
        {},
        BEGIN
        + """
scaler = torch.amp.GradScaler("cpu")
model = nn.Linear(2, 1)
apply({"precision-fp16": {}}, model, torch.optim.SGD(model.parameters(), lr=0.1))
model(torch.ones(1, 2)).sum().backward()
told["gradient"] = model.weight.grad.flatten().tolist()
model(torch.full((1, 2), 1e6)).sum().backward()
told["finite"] = bool(model(torch.full((1, 2), 1e6)).isfinite().all())
""",
    )
    assert run.told == {"gradient": [1.0, 1.0], "finite": True}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            "model, optimizer, [1, 2]",
            "The loader given to apply is of type list; it must be a",
        ),
        ("loader=iter([1])", "Leave it out: no recipe changes other loaders."),
        ("loader=Own()", "The loader given to apply is of type Own"),
        ("model, [optimizer]", "Where there are several, call apply for each optimizer."),
        (
            "{'a': model}, optimizer",
            "model given to apply is of type dict; it must be a torch.nn",
        ),
        (
            "optimizer, model",
            "is of type SGD; it must be a torch.nn.Module. Give it as optim",
        ),
        ("DataLoader([1])", "Give it as loader=..."),
        ("model, Own()", "Leave the optimizer out, or give the one that is inside of it."),
    ],
)
def test_what_cannot_be_changed_is_a_usage_error_before_anything_is(train, given, sentence):
    run = train(
        {},
        BEGIN
        + f"""
class Own:
    def __iter__(self):
        return iter([1])

model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
before = torch.nn.Module.zero_grad
from hotlap.errors import UsageError
try:
    apply({{"zero-grad-none": {{}}, "loader-workers": {{"workers": 1}}}}, {given})
except UsageError as problem:
    told["problem"] = str(problem)
told["same"] = torch.nn.Module.zero_grad is before
""",
    )
    assert sentence in run.told["problem"]
    assert run.told["same"]


def test_a_recipe_is_checked_at_the_latest_when_it_is_applied():
    with pytest.raises(UsageError, match="names nope, which is no optimization"):
        Recipe({"nope": {}}).apply()
    with pytest.raises(UsageError, match="loader-workers needs workers"):
        Recipe({"loader-workers": {}}).apply()
