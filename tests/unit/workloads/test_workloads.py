"""The scripts that are tuned: every option does something, and what they print can be read."""

import json
import re
import sys

import pytest
import torch

from hotlap.data import Cifar10
from hotlap.workloads import cifar, superres, training

SMALL = "--samples 64 --epochs 1 --workers 0 --batch 16 --device cpu"
EPOCH = re.compile(
    r"^epoch 1: loss ([\d.]+), .*; loading ([\d.]+) s, training ([\d.]+) s, total ([\d.]+) s",
    re.M,
)


@pytest.fixture
def printed(monkeypatch, capsys):
    def run(module, words):
        monkeypatch.setattr(sys, "argv", ["script", *words.split()])
        module.main()
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    "more",
    [
        "--model resnet10",
        "--model resnet10 --norm none --optimizer adamw --schedule cosine",
        "--model resnet10 --precision bf16 --accumulate 2 --schedule constant",
        "--model revnet38 --optimizer nesterov",
        "--model resnet10 --input device --optimizer adagrad",
    ],
)
def test_small_images_are_trained_on(printed, more):
    out = printed(cifar, f"{SMALL} {more}")
    assert len(re.findall(r"^  \d/4 loss [\d.]+ top-1 [\d.]+%$", out, re.M)) == 4
    (found,) = EPOCH.findall(out)
    loss, loading, rest, total = map(float, found)
    assert 0 < loss < 20
    assert loading + rest == pytest.approx(total, abs=0.02)
    assert "test accuracy" in out


@pytest.mark.parametrize("more", ["--scale 2", "--scale 4 --optimizer sgd --lr 0.001"])
def test_super_resolution_is_trained(printed, more):
    out = printed(superres, f"{SMALL} --blocks 1 --quiet {more}")
    assert EPOCH.search(out)
    assert " dB" in out
    assert "1/4" not in out


@pytest.mark.parametrize(
    ("module", "more", "own"),
    [
        (cifar, "--model resnet10 --width 8", {"train_accuracy", "test_accuracy"}),
        (superres, "--blocks 1", {"psnr_decibels"}),
    ],
)
def test_the_log_has_a_line_of_json_for_every_epoch(printed, tmp_path, module, more, own):
    file = tmp_path / "epochs.jsonl"
    printed(module, f"{SMALL.replace('--epochs 1', '--epochs 2')} --quiet --log {file} {more}")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    for line in lines:
        assert own < line.keys()
        assert line["loss"] > 0
        assert line["loading_seconds"] + line["training_seconds"] == pytest.approx(
            line["total_seconds"]
        )


def test_images_that_are_kept_are_the_ones_that_were_made(tmp_path):
    made = cifar.read("synthetic", True, 20, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["synthetic-train-20.tensors"]
    for before, after in zip(made, cifar.read("synthetic", True, 20, tmp_path), strict=True):
        assert torch.equal(before, after)


def test_a_few_of_the_images_are_of_all_classes(monkeypatch):
    whole = Cifar10(torch.zeros(100, 3, 32, 32), torch.arange(10).repeat_interleave(10))
    monkeypatch.setattr(Cifar10, "from_jpegs", lambda *told, **more: whole)
    images, labels = cifar.read("somewhere", True, 20)
    assert len(images) == 20
    assert labels.bincount().tolist() == [2] * 10
    assert len(cifar.read("somewhere", True, 1000)[0]) == 100


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
        accumulate=3,
    )
    assert len(steps) == 2
