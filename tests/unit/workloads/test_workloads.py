"""The scripts that are tuned: every option does something, and what they print can be read."""

import json
import os
import re
import signal
import subprocess
import sys
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


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        (cifar, "--epochs 0", "--epochs: 0 is less than 1"),
        (cifar, "--accumulate 0", "--accumulate: 0 is less than 1"),
        (cifar, "--workers -1", "--workers: -1 is less than 0"),
        (cifar, "--samples 0", "--samples: 0 is less than 1"),
        (cifar, "--samples 3000000000", "--samples: 3000000000 is more than 2147483647"),
        (cifar, "--batch 99999999999999999999", "99999999999999999999 is more than"),
        (cifar, "--device hpu", "--device: hpu cannot be used: "),
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


def test_pieces_of_images_follow_from_the_seed(printed, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for number in range(4):
        made = Image.effect_noise((64, 64), 100).convert("RGB")
        made.save(tmp_path / f"{number}.png")
    asked = []

    class Noted(superres.Pairs):
        def __init__(self, images, **more):
            super().__init__(images, **more)
            asked.append(self[0][1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superres, "Pairs", Noted)
        for seed in (1, 1, 2):
            printed(superres, f"{SMALL} --blocks 1 --data {tmp_path} --seed {seed}")
    assert torch.equal(asked[0], asked[1])
    assert not torch.equal(asked[0], asked[2])


def test_super_resolution_is_not_trained_by_several_processes(printed, capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "start it without torchrun" in sentence(printed, capsys, superres, "--blocks 1")


def started(words):
    return subprocess.Popen(
        [sys.executable, "-m", "hotlap.workloads.cifar", *f"{SMALL} {words}".split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


ENDLESS = "--model resnet10 --width 8 --epochs 10000"


def test_a_keyboard_interrupt_ends_it_without_a_traceback():
    training_process = started(ENDLESS)
    training_process.stdout.readline()
    training_process.send_signal(signal.SIGINT)
    _, said = training_process.communicate(timeout=60)
    assert said == ""
    assert training_process.returncode == -signal.SIGINT


def test_output_that_nobody_reads_on_ends_it_without_a_traceback():
    training_process = started(ENDLESS)
    with training_process:
        training_process.stdout.readline()
        training_process.stdout.close()
        assert training_process.stderr.read() == ""
    assert training_process.returncode == training.DESERTED


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


def test_a_learning_rate_of_zero_is_one(printed):
    words = f"{SMALL} --model resnet10 --width 8 --schedule constant --lr 0 --norm none"
    first, second = (printed(cifar, f"{words} --epochs {epochs}") for epochs in (1, 2))
    assert re.findall(r"test accuracy ([\d.]+%)", second) == 2 * re.findall(
        r"test accuracy ([\d.]+%)", first
    )


def test_super_resolution_takes_a_plain_folder_and_so_many_of_it(printed, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "more").mkdir()
    for number in range(10):
        folder = tmp_path / "more" if number % 2 else tmp_path
        Image.new("RGB", (64, 64), (number, 0, 0)).save(folder / f"{number}.png")
    words = "--epochs 1 --workers 0 --batch 2 --device cpu --blocks 1 --data"
    assert "  5/5 loss" in printed(superres, f"{words} {tmp_path}")
    assert "  2/2 loss" in printed(superres, f"{words} {tmp_path} --samples 4")
