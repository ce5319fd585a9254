"""Which of several loaders with a batch at hand a backward pass trains on."""

import json

import pytest

from hotlap.probes.company import RECENT, Company
from hotlap.probes.steps import EPOCH, EVALUATION, FETCHED, STEP, TRAINED, Tally
from hotlap.settings import Limits

TRAIN, OTHER, THIRD, VAL, TEST = 1, 2, 3, 8, 9
SIZES = {TRAIN: 16, OTHER: 32, THIRD: 8, VAL: 400, TEST: 100}


def met(*there):
    company = Company()
    return [company.meet(loaders)[0] for loaders in there]


@pytest.mark.parametrize("every", [1, 2, 3])
def test_loaders_that_come_along_often_are_trained_on(every):
    there = [[TRAIN, OTHER] if step % every == 0 else [TRAIN] for step in range(60)]
    assert met(*there)[every:] == there[every:]


@pytest.mark.parametrize("every", [4, 5, 10, 50])
@pytest.mark.parametrize("first", [1, 3])
def test_a_loader_that_comes_along_now_and_then_is_a_guest(every, first):
    there = [[TRAIN, VAL] if step % every == first else [TRAIN] for step in range(200)]
    assert met(*there) == [[TRAIN]] * 200


def test_a_loader_that_joins_later_and_stays_is_trained_on():
    found = met(*[[TRAIN]] * 100, *[[TRAIN, OTHER]] * 50)
    assert found[100] == [TRAIN]
    assert found[100 + RECENT // 2 :] == [[TRAIN, OTHER]] * (50 - RECENT // 2)


def test_loaders_taken_in_turn_are_all_trained_on_and_a_guest_is_not():
    turns = [[TRAIN], [OTHER], [THIRD]] * 20
    assert met(*turns) == turns
    assert met(*turns, [VAL, TRAIN], *turns, [OTHER, VAL])[-1] == [OTHER]
    assert met(*turns, [OTHER, TRAIN])[-1] == [OTHER, TRAIN]


def test_zipped_loaders_have_guests_too_even_two_at_a_time():
    zipped = [[TRAIN, OTHER]] * 20
    assert met(*zipped, [TRAIN, OTHER, VAL, TEST])[-1] == [TRAIN, OTHER]
    assert met(*zipped, [VAL, TRAIN, OTHER])[-1] == [TRAIN, OTHER]


def test_a_loader_made_anew_for_each_epoch_is_no_guest_of_the_one_that_lasts():
    epochs = [[TRAIN, number] for number in range(100, 110) for _ in range(4)]
    assert met(*epochs) == epochs


def test_a_guest_is_known_again_beside_a_loader_that_is_new():
    epoch = [[TRAIN]] * 6 + [[TRAIN, VAL]] + [[TRAIN]] * 6
    assert met(*epoch, [VAL, OTHER])[-1] == [OTHER]


# What the tally makes of it ----------------------------------------------------------------


def step(tally, *loaders, looks=(), blind=(), started=False):
    """One step: what it trained on, with what was looked at before it."""
    tally.loader_started = started
    for loader in looks:
        tally.fetched(SIZES[loader], loader, blind=loader in blind)
    for loader in loaders:
        tally.fetched(SIZES[loader], loader, blind=loader in blind)
    tally.backward()
    return tally.close()


def listening():
    trained = {}

    def more(loader):
        trained[loader] = trained.get(loader, 0) + 1

    return Tally(more, lambda loader: trained.pop(loader, None)), trained


def test_a_look_into_another_loader_is_not_trained_on():
    tally, trained = listening()
    for number in range(1, 101):
        looks = [VAL] if number % 10 == 0 else []
        found = step(tally, TRAIN, looks=looks, started=bool(looks))
        assert found == (16, EVALUATION if looks else STEP)
    assert trained == {TRAIN: 100}


def test_a_look_before_training_is_taken_back():
    tally, trained = listening()
    step(tally, TRAIN, looks=[VAL], started=True)
    assert trained == {TRAIN: 1, VAL: 1}  # it could be zipped
    step(tally, TRAIN)
    assert step(tally, TRAIN) == (16, STEP)
    assert trained == {TRAIN: 3}


@pytest.mark.parametrize("batches", [1, 2, 10])
@pytest.mark.parametrize("every", [1, 2, 8])
def test_what_is_fetched_without_gradients_is_an_evaluation(batches, every):
    tally, trained = listening()
    step(tally, TRAIN)
    for number in range(39):
        looks = [VAL] * batches if number % every == 0 else []
        found = step(tally, TRAIN, looks=looks, blind=[VAL], started=bool(looks))
        assert found == (16, EVALUATION if looks else STEP)
    assert trained == {TRAIN: 40}


def test_an_evaluation_without_gradients_beside_zipped_loaders_and_accumulation():
    tally, trained = listening()
    for number in range(20):
        if number % 5 == 0:
            tally.fetched(400, VAL, blind=True)
        for _ in range(3):
            tally.fetched(16, TRAIN)
            tally.fetched(32, OTHER)
            tally.backward()
        assert tally.close()[0] == 144
    assert trained == {TRAIN: 60, OTHER: 60}


def test_training_whose_batches_are_all_fetched_without_gradients_counts_them():
    tally, trained = listening()
    tally.fetched(16, TRAIN, blind=True)
    for number in range(40):
        if number % 10 == 5:
            tally.fetched(400, VAL, blind=True)
        tally.fetched(16, TRAIN, blind=True)  # one ahead
        tally.backward()
        assert tally.close()[0] == 16
    assert trained == {TRAIN: 40}


def test_a_look_with_gradients_into_what_is_then_fetched_without_them():
    tally, trained = listening()
    tally.fetched(16, TRAIN)
    for _ in range(5):
        assert step(tally, TRAIN, blind=[TRAIN]) == (16, STEP)
    assert trained == {TRAIN: 5}


def test_evaluating_on_the_training_loader_leaves_none_of_its_batches():
    tally, _ = listening()
    assert step(tally, TRAIN) == (16, STEP)
    for size in (16, 16, 5):
        tally.fetched(size, TRAIN, blind=True)
    assert step(tally, TRAIN, started=True) == (16, EVALUATION)
    assert step(tally, TRAIN, started=True) == (16, EPOCH)


def test_training_without_a_loader_is_not_counted_by_the_loader_it_is_evaluated_with():
    tally, trained = listening()
    for number in range(20):
        if number % 5 == 0:
            tally.fetched(400, VAL, blind=True)
            tally.fetched(400, VAL, blind=True)
            tally.fetched(400, VAL, blind=True)
        tally.forward(1, 64, replay=False)
        tally.backward()
        assert tally.close()[0] == 64
    assert trained == {}


def test_fetching_without_gradients_can_be_told():
    tally, trained = listening()
    for looked, loader in ((False, TRAIN), (True, VAL), (False, TRAIN)):
        tally.tell((FETCHED, SIZES[loader], loader, looked))
        if not looked:
            tally.tell((TRAINED, None, None, False))
    assert tally.close()[0] == 32
    assert trained == {TRAIN: 2}


WATCHED = """
import copy, time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from hotlap.probes.install import install

recorder = install(torch, Path("trial"), time.time())
model = nn.Linear(10, 1)
average = copy.deepcopy(model)  # as nobody knows it, its forwards are not seen
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(160, 10))
train, val, other = (DataLoader(data, batch_size=size) for size in (8, 80, 40))
for epoch in range(8):
    for step, (x,) in enumerate(train):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if step == 10:
            next(iter(other))[0].mean()
    with torch.inference_mode():
        for (x,) in val:
            average(x)
"""


def test_an_unknown_model_is_evaluated_and_a_loader_looked_into(in_python, tmp_path):
    trial = tmp_path / "trial"
    trial.mkdir()
    limits = Limits(steps=120, seconds=60.0).as_dict()
    settings = {"limits": limits, "protected": [], "diverted": str(trial), "in_place": True}
    (trial / "settings.json").write_text(json.dumps({**settings, "started": 0.0}))
    in_python(WATCHED)
    record = json.loads(next((trial / "records").iterdir()).read_text())
    fed = {one["batch_size"]: one["trained"] for one in record["loaders"]}
    assert fed[8] > 0 == fed[80] == fed[40]
    rows = [row for window in record["windows"] for row in window["intervals"]]
    assert {row["samples"] for row in rows} <= {8, None}
    assert {row["kind"] for row in rows} >= {"evaluation", "step"}
    assert record["problems"] == []
