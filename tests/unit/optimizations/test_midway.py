"""loader-workers: a data set that the script changes in the middle of an epoch."""

import pytest
import torch
from torch.utils.data import TensorDataset

from hotlap.data import Concurrent, Tiered
from hotlap.optimizations.midway import scripts_own

WORKERS = {"loader-workers": {"workers": 2}}
WHY = "the script changes `level` of its data set while it trains"
SCRIPT = """
import time
from torch.utils.data import Dataset

class Data(Dataset):
    def __init__(self):
        self.level, self.table, self.long = 0, torch.zeros(3), [0] * 99

    def __len__(self):
        return 22

    def __getitem__(self, index):
        return index, self.level + int(self.table.sum()) + self.long[77], os.getpid()

class Collating:
    level = 0

    def __call__(self, samples):
        return torch.tensor([(at, seen + self.level, pid) for at, seen, pid in samples]).T

torch.manual_seed(3)
data, collating = Data(), Collating()
loader = MADE
told["main"], told["epochs"], step = os.getpid(), [], 0
for epoch in range(3):
    told["epochs"].append([])
    for indices, levels, pids in loader:
        told["epochs"][-1].append([indices.tolist(), levels.tolist(), pids.tolist()])
        step += 1
        if step >= FROM:
            CHANGE
    told["drawn"] = float(torch.rand(()))
"""
SHUFFLED = "DataLoader(data, batch_size=4, shuffle=True)"
SINGLE = "DataLoader(data, batch_size=None, sampler=[*range(9)], collate_fn=torch.tensor)"
COLLATED = "DataLoader(data, batch_size=4, shuffle=True, collate_fn=collating)"


def trained(train, recipe, *, made=SHUFFLED, change="data.level = step", since=1):
    script = SCRIPT.replace("MADE", made).replace("CHANGE", change).replace("FROM", str(since))
    run = train(recipe, script)
    epochs = [[batch[:2] for batch in epoch] for epoch in run.told["epochs"]]
    return run, epochs


def without_workers(run):
    """Of each epoch, each batch."""
    main = run.told["main"]
    return [[set(pids) == {main} for *_, pids in epoch] for epoch in run.told["epochs"]]


@pytest.mark.parametrize(
    ("recipe", "since"),
    [(WORKERS, 1), (WORKERS, 4), (WORKERS, 8), ({**WORKERS, "persistent-workers": {}}, 4)],
)
def test_batches_are_those_of_the_script_without_workers(train, recipe, since):
    plain, expected = trained(train, {}, since=since)
    run, epochs = trained(train, recipe, since=since)
    assert epochs == expected
    assert run.told["drawn"] == plain.told["drawn"], "other random numbers were drawn"
    assert {one["until"] for one in run.done.values()} == {WHY}


@pytest.mark.parametrize(
    ("made", "change"),
    [
        (SINGLE, "data.level = step"),
        (SHUFFLED, "data.table[1] += 1"),
        (SHUFFLED, "data.long[77] += 1"),
        (COLLATED, "collating.level = step"),
    ],
    ids=["samples", "a tensor", "a long list", "what collates"],
)
def test_every_change_is_seen(train, made, change):
    expected = trained(train, {}, made=made, change=change)[1]
    run, epochs = trained(train, WORKERS, made=made, change=change)
    assert epochs == expected
    assert "until" in run.done["loader-workers"]


def test_a_model_that_learns_is_evaluated_while_the_collate_function_holds_it(train):
    made = "DataLoader(data, batch_size=4, shuffle=True, collate_fn=holding)"
    model = f"""
class Holding(Collating):
    def __init__(self, model): self.model = model

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
holding = Holding(model)
data, collating = Data(), Collating()
loader = {made}"""
    run = train(
        WORKERS,
        SCRIPT.replace("data, collating = Data(), Collating()\nloader = MADE", model)
        .replace("CHANGE", "model.train(step % 3 > 0)")
        .replace("FROM", "2"),
    )
    assert run.done["loader-workers"] == {"status": "applied", "detail": "num_workers=2"}


def test_it_is_said_what_was_changed(train):
    run, _ = trained(train, WORKERS, made=COLLATED, change="collating.level = step")
    why = "the script changes `level` of its collate function while it trains"
    assert run.done["loader-workers"]["until"] == why


def test_workers_load_until_then_and_never_again(train):
    run, _ = trained(train, WORKERS, since=8)
    assert without_workers(run) == [[False] * 6, [False] * 2 + [True] * 4, [True] * 6]


@pytest.mark.parametrize("change", ["pass", "if step % 6 == 0: data.level = step"])
def test_a_data_set_that_stays_as_it_is_within_an_epoch_keeps_its_workers(train, change):
    expected = trained(train, {}, change=change)[1]
    run, epochs = trained(train, WORKERS, change=change)
    assert epochs == expected
    assert run.done["loader-workers"] == {"status": "applied", "detail": "num_workers=2"}


def test_a_loader_that_is_made_anew_gets_no_workers_again(train):
    made = f"type('Anew', (), {{'__iter__': lambda self: iter({SHUFFLED})}})()"
    expected = trained(train, {}, made=made)[1]
    run, epochs = trained(train, WORKERS, made=made)
    assert epochs == expected
    assert run.done["loader-workers"]["status"] == "applied"
    assert without_workers(run)[1:] == [[True] * 6] * 2


def test_two_recipes_in_one_process_do_not_meet(train):
    """As with `Recipe.apply`, for one model after the other."""
    again = "install(torch, Path('trial'), {'recipe': {'loader-workers': {'workers': 2}}})"
    made = f"[{again}, {SHUFFLED}][1]"
    expected = trained(train, {}, since=4)[1]
    assert trained(train, WORKERS, made=made, since=4)[1] == expected


def test_workers_end_with_their_iterator(train):
    script = """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return index

loader = DataLoader(Data(), batch_size=2, shuffle=True)
import gc
gc.disable()
iterator = iter(loader)
next(iterator)
workers = list(iterator._workers)
told["before"] = [one.is_alive() for one in workers]
del iterator
told["after"] = [one.is_alive() for one in workers]
"""
    run = train(WORKERS, script)
    assert (run.told["before"], run.told["after"]) == ([True] * 2, [False] * 2)


def test_the_scripts_own_data_set_is_found_in_a_cache_and_in_threads():
    data = TensorDataset(torch.arange(8.0))
    for around in (data, Tiered(data, ram=4096), Concurrent(data), Concurrent(Tiered(data))):
        assert scripts_own(around) is data
