"""What both scripts share: steps of all their samples, times that add up, words for options."""

from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from hotlap.errors import UsageError
from hotlap.workloads import training


@pytest.mark.parametrize("name", training.OPTIMIZERS)
def test_every_optimizer_takes_a_step(name):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = training.OPTIMIZERS[name](model.parameters(), 0.01)
    before = model.weight.clone()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight, before)


def test_accumulating_steps_once_for_several_batches():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    steps = []
    optimizer.register_step_post_hook(lambda *told: steps.append(1))
    schedule = training.schedule_of("constant", optimizer, 0.1, 4)
    batches = [(torch.ones(2, 4), torch.zeros(2, 2))] * 6
    training.train_epoch(
        model,
        batches,
        torch.nn.MSELoss(),
        optimizer,
        schedule,
        training.Precision("fp32", torch.device("cpu")),
        device=torch.device("cpu"),
        samples=12,
        accumulate=3,
    )
    assert len(steps) == 2


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_the_loss_of_an_epoch_is_the_mean_over_its_samples(accumulate):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    inputs, targets = torch.randn(17, 4), torch.randn(17, 2)
    told = []
    loss, _ = training.train_epoch(
        *(model, list(zip(inputs.split(8), targets.split(8), strict=True))),
        torch.nn.MSELoss(),
        optimizer,
        training.schedule_of("constant", optimizer, 0.0, 3),
        training.Precision("fp32", torch.device("cpu")),
        device=torch.device("cpu"),
        samples=17,
        accumulate=accumulate,
        tell=lambda number, loss, outputs, targets: told.append(loss),
    )
    assert loss == pytest.approx(torch.nn.MSELoss()(model(inputs), targets).item(), rel=1e-5)
    assert told[2] == pytest.approx(torch.nn.MSELoss()(model(inputs[16:]), targets[16:]).item())


def test_starting_what_loads_is_waiting(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    class Slow:
        def __iter__(self):
            now[0] += 5
            return self.batches()

        def batches(self):
            for number in range(2):
                now[0] += 1
                yield number

    clock = training.Clock()
    for _ in clock.waiting(Slow()):
        now[0] += 10
    assert clock.read() == {"loading_seconds": 7, "training_seconds": 20, "total_seconds": 27}


@pytest.mark.parametrize("device", ["mps", "xla"])
def test_why_a_device_cannot_be_used_is_one_sentence(device, monkeypatch):
    reason = "Could not run it with arguments from the backend. Here is a list: [CPU, Meta, ...]."
    monkeypatch.setattr(torch, "empty", Mock(side_effect=NotImplementedError(reason)))
    with pytest.raises(ArgumentTypeError) as refused:
        training.device(device)
    assert str(refused.value) == (
        f"{device} cannot be used: Could not run it with arguments from the backend"
    )


def test_looking_whether_a_log_can_be_written_changes_nothing(tmp_path):
    new, old, link = (tmp_path / name for name in ("new", "old", "link"))
    old.write_text("figures")
    link.symlink_to(tmp_path / "elsewhere")
    for path in (new, old, link):
        assert training.file(str(path)) == path
    assert sorted(tmp_path.iterdir()) == [link, old]
    assert old.read_text() == "figures"


def test_a_log_on_a_full_disk_is_a_sentence():
    with pytest.raises(UsageError, match="/dev/full cannot be written: No space left on device"):
        training.Log(Path("/dev/full"), torch.device("cpu")).add(epoch=1)


def test_what_is_left_of_an_epoch_makes_a_step_of_its_own():
    model, batches = torch.nn.Linear(2, 1), [(torch.ones(1, 2), torch.zeros(1, 1))] * 5
    taken = []
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    optimizer.register_step_post_hook(lambda *told: taken.append(float(model.weight.grad.norm())))
    training.train_epoch(
        *(model, batches, torch.nn.MSELoss(), optimizer),
        training.schedule_of("constant", optimizer, 1e-3, 3),
        training.Precision("fp32", torch.device("cpu")),
        device=torch.device("cpu"),
        samples=5,
        accumulate=2,
    )
    assert len(taken) == training.steps_of(5, 2) == 3
    assert taken[2] == pytest.approx(taken[1], rel=0.05)


@pytest.mark.parametrize("accumulate", [1, 2, 3, 5])
def test_a_step_is_of_the_mean_over_its_samples(accumulate):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    inputs, targets = torch.randn(19, 4), torch.randn(19, 2)  # batches of 8, 8 and 3
    wanted, steps = [], 8 * accumulate
    for some, of in zip(inputs.split(steps), targets.split(steps), strict=True):
        loss = torch.nn.MSELoss()(model(some), of)
        wanted.append(torch.autograd.grad(loss, model.weight)[0])
    taken = []
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    optimizer.register_step_post_hook(lambda *told: taken.append(model.weight.grad.clone()))
    training.train_epoch(
        *(model, list(zip(inputs.split(8), targets.split(8), strict=True))),
        *(torch.nn.MSELoss(), optimizer),
        training.schedule_of("constant", optimizer, 0.0, 3),
        training.Precision("fp32", torch.device("cpu")),
        device=torch.device("cpu"),
        samples=19,
        accumulate=accumulate,
    )
    torch.testing.assert_close(taken, wanted)


def test_a_step_that_overflows_does_not_move_the_schedule():
    model, batches = torch.nn.Linear(2, 1), [(torch.ones(1, 2), torch.zeros(1, 1))] * 3
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    steps = []
    optimizer.register_step_post_hook(lambda *told: steps.append(1))
    schedule = training.schedule_of("cosine", optimizer, 1e-3, 3)
    precision = training.Precision("fp16", torch.device("cpu"))
    precision.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    training.train_epoch(
        *(model, batches, lambda outputs, targets: 1e5 * outputs.float().mean()),
        *(optimizer, schedule, precision),
        device=torch.device("cpu"),
        samples=3,
    )
    assert len(steps) < 3
    assert schedule.last_epoch == len(steps)
