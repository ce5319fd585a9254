"""The scripts that are tuned: every option does something, and what they print can be read."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hotlap.data import Cifar10
from hotlap.errors import UsageError
from hotlap.workloads import cifar, superres, training
from hotlap.workloads.ranks import Ranks

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


def test_accuracies_are_of_what_all_processes_count(printed, monkeypatch, tmp_path):
    monkeypatch.setattr(Ranks, "summed", lambda own, numbers: numbers * 0 + 16)
    printed(cifar, f"{SMALL} --model resnet10 --width 8 --log {tmp_path / 'log'}")
    told = json.loads((tmp_path / "log").read_text())
    assert (told["train_accuracy"], told["test_accuracy"]) == (16 / 64, 16 / 16)


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


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        (cifar, "--epochs 0", "--epochs: 0 is less than 1"),
        (cifar, "--accumulate 0", "--accumulate: 0 is less than 1"),
        (cifar, "--workers -1", "--workers: -1 is less than 0"),
        (cifar, "--lr -0.1", "--lr: -0.1 is no learning rate"),
        (cifar, "--lr nan", "--lr: nan is no learning rate"),
        (cifar, "--model resnet19", "invalid choice: 'resnet19'"),
        (cifar, "--model revnet38 --width 8", "revnet38 has its own"),
        (cifar, "--device nowhere", "--device: nowhere cannot be used: Expected one of cpu"),
        (cifar, "--log nowhere/epochs.jsonl", "nowhere/epochs.jsonl is a folder, or lies in none"),
        (cifar, "--seed 99999999999999999999", "99999999999999999999 is too large for a seed"),
        (cifar, f"--cache {__file__}", "test_workloads.py is no folder"),
        (cifar, f"--cache {__file__}/x/y", "test_workloads.py is no folder"),
        (cifar, f"--cache {'x' * 300}", "cannot be used: File name too long"),
        (cifar, "--device meta", "--device: meta cannot be used: it holds no numbers"),
        (cifar, "--log /proc/x.json", "--log: /proc/x.json cannot be written: "),
        (superres, "--log /proc/x.json", "--log: /proc/x.json cannot be written: "),
        (superres, "--data download", "--data download is of cifar alone; give a folder"),
        (superres, "--blocks 0", "--blocks: 0 is less than 1"),
        (superres, "--crop 3", "--crop 3 is no multiple of --scale 2"),
        (superres, "--crop 50", "--crop 50 does not fit into images of 48 x 48"),
        (superres, "--model unet", "invalid choice: 'unet'"),
    ],
)
def test_values_that_cannot_be_are_named(printed, capsys, module, words, said):
    with pytest.raises(SystemExit) as ended:
        printed(module, words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def sentence(printed, capsys, module, words):
    """What the script says instead of training."""
    script = SimpleNamespace(main=lambda: training.command(module.main))
    with pytest.raises(SystemExit) as ended:
        printed(script, f"{SMALL} {words}")
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (cifar, "nowhere is not there.\n"),
        (superres, "nowhere/ cannot be listed: No such file or directory.\n"),
    ],
)
def test_images_that_are_not_there_are_a_sentence(printed, capsys, module, said):
    assert sentence(printed, capsys, module, "--data nowhere") == said


def test_a_cache_that_cannot_be_made_is_a_sentence(printed, capsys):
    said = sentence(printed, capsys, cifar, "--cache /proc/x")
    assert re.fullmatch(r"/proc/x cannot be used: [\w\s-]+\. Give another path\.\n", said)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_is_too_small_is_a_sentence(printed, capsys, tmp_path, workers):
    Image = pytest.importorskip("PIL.Image")
    Image.new("RGB", (30, 30)).save(tmp_path / "1.png")
    said = sentence(printed, capsys, superres, f"--blocks 1 --data {tmp_path} --workers {workers}")
    assert said == (
        "image 0 is 30 x 30: no piece of 48 x 48 fits into it. Take a smaller crop, or larger"
        " images.\n"
    )


def test_a_download_that_fails_leaves_no_empty_folder(monkeypatch, tmp_path):
    def fail(folder, *, train):
        folder.mkdir(exist_ok=True)
        raise UsageError("no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Cifar10, "download", fail)
    with pytest.raises(UsageError):
        cifar.read("download", True, 0)
    assert not list(tmp_path.iterdir())
    (tmp_path / "data").mkdir()
    with pytest.raises(UsageError):
        cifar.read("download", True, 0)
    assert (tmp_path / "data").is_dir()


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


def test_a_learning_rate_of_zero_is_one(printed):
    words = f"{SMALL} --model resnet10 --width 8 --schedule constant --lr 0 --norm none"
    first, second = (printed(cifar, f"{words} --epochs {epochs}") for epochs in (1, 2))
    assert re.findall(r"test accuracy ([\d.]+%)", second) == 2 * re.findall(
        r"test accuracy ([\d.]+%)", first
    )


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


def test_super_resolution_takes_a_plain_folder_and_so_many_of_it(printed, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "more").mkdir()
    for number in range(10):
        folder = tmp_path / "more" if number % 2 else tmp_path
        Image.new("RGB", (64, 64), (number, 0, 0)).save(folder / f"{number}.png")
    words = "--epochs 1 --workers 0 --batch 2 --device cpu --blocks 1 --data"
    assert "  5/5 loss" in printed(superres, f"{words} {tmp_path}")
    assert "  2/2 loss" in printed(superres, f"{words} {tmp_path} --samples 4")
