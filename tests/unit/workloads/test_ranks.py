"""Several processes train together: each on its share, and the first one tells."""

import json
import os
import subprocess
import sys
import weakref

import pytest
import torch

from hotlap.errors import UsageError
from hotlap.workloads.ranks import Ranks, join, sampler

TWO = [Ranks(device=torch.device("cpu"), rank=rank, world=2, together=True) for rank in range(2)]


def test_one_process_is_left_as_it_is(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    alone = join("cpu")
    model = torch.nn.Linear(2, 2)
    assert (alone.first, alone.world) == (True, 1)
    assert alone.wrapped(model) is model
    assert sampler(alone, [1, 2, 3], 0) is None
    assert alone.summed(torch.ones(1)).tolist() == [1]


def test_a_world_without_the_rest_of_it_is_a_sentence(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"WORLD_SIZE is 2, but: .*RANK.* Start it with torchrun"):
        join("cpu")


def test_a_process_without_a_gpu_is_a_sentence(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match=r"Process 3 has no GPU: this machine has 2\."):
        join("cuda")


def test_shares_are_of_one_size_and_have_nothing_in_common():
    images, labels = torch.arange(7), torch.arange(7) * 10
    (first, firsts), (second, seconds) = (one.part(images, labels) for one in TWO)
    assert len(first) == len(second) == 3
    assert not set(first.tolist()) & set(second.tolist())
    assert torch.equal(firsts, first * 10)
    assert torch.equal(seconds, second * 10)


def test_shares_are_of_all_classes_where_labels_come_in_turn():
    labels = torch.arange(1000) % 10
    for one in TWO:
        assert one.part(labels)[0].bincount(minlength=10).min() > 30


def test_one_process_has_all_of_it_in_its_order():
    images = torch.arange(7)
    assert Ranks(device=torch.device("cpu")).part(images)[0] is images


def test_orders_of_processes_have_nothing_in_common():
    first, second = (set(sampler(one, list(range(10)), 0)) for one in TWO)
    assert not first & second
    assert len(first) == len(second) == 5


def test_what_was_summed_last_outlives_the_thread_that_summed_it(monkeypatch):
    """torch 2.4 waits for ever where that thread is the last to let go of it."""
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda numbers: None)
    ranks = Ranks(device=torch.device("cpu"), together=True)
    summed = [weakref.ref(ranks.summed(torch.ones(1))) for _ in range(12)]
    assert [one() is not None for one in summed] == [False] * 4 + [True] * 8


@pytest.mark.parametrize("source", ["loader", "device"])
def test_two_processes_train_and_one_tells(tmp_path, source):
    words = (
        "-m torch.distributed.run --standalone --local-addr localhost --nproc-per-node 2 "
        "-m -- hotlap.workloads.cifar --model resnet10 --width 8 --samples 64 --batch 8 --epochs 1 "
        f"--workers 0 --device cpu --input {source} --log {tmp_path / 'log'}"
    )
    done = subprocess.run(
        [sys.executable, *words.split()],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "4/4 loss" in done.stdout  # 64 images, two processes, 8 at a time
    assert done.stdout.count("epoch 1: ") == 1
    (line,) = (tmp_path / "log").read_text().splitlines()
    told = json.loads(line)
    assert 0 <= told["test_accuracy"] <= 1
    assert 0 <= told["train_accuracy"] <= 1
