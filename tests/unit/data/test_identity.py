"""Caches of different data sets are apart, and that of one is found again."""

import json
import os
import subprocess
import sys

import pytest
import torch
from numbers_kept import MB
from torch.utils.data import Subset, TensorDataset

from hotlap.data import identity
from hotlap.data.synthetic import SyntheticImages
from hotlap.data.tiered import Tiered


class Rows:
    """Keeps what it has in a list, as a folder of images does."""

    def __init__(self, rows, transform=None):
        self.rows, self.transform = rows, transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = torch.tensor(float(self.rows[index]))
        return row if self.transform is None else self.transform(row)


class Times:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, value):
        return value * self.factor


VALUES = torch.arange(200.0)
FOLDS = [[at for at in range(100) if not start <= at < start + 10] for start in (20, 30)]
PAIRS = {
    "train and test": [SyntheticImages(count=30, train=train) for train in (True, False)],
    "tensors": [TensorDataset(VALUES[:100]), TensorDataset(VALUES[100:])],
    "folds that differ in few places": [Subset(TensorDataset(VALUES), fold) for fold in FOLDS],
    "lists": [Rows(list(range(100))), Rows([*range(50), 1000, *range(51, 100)])],
    "plain lists": [list(range(100)), [*range(50), 1000, *range(51, 100)]],
    "transforms": [Rows(list(range(100)), Times(2)), Rows(list(range(100)), Times(3))],
    "functions": [Rows([1, 2, 3], lambda x: x + 1), Rows([1, 2, 3], lambda x: x + 2)],
}


def as_list(sample):
    return [part.tolist() if hasattr(part, "tolist") else part for part in sample]


def content(dataset):
    first = dataset[0]
    whole = [dataset[at] for at in range(len(dataset))]
    return [as_list(one) for one in whole] if isinstance(first, tuple) else whole


@pytest.mark.parametrize("name", PAIRS)
def test_one_set_is_never_served_as_another_from_disk(tmp_path, name):
    caches = [Tiered(one, ram=0, disk=50 * MB, path=tmp_path) for one in PAIRS[name]]
    for _ in range(2):
        for cached, source in zip(caches, PAIRS[name], strict=True):
            assert content(cached) == content(source)


@pytest.mark.parametrize("name", PAIRS)
def test_nor_from_the_memory_that_ranks_share(monkeypatch, tmp_path, name):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    caches = [Tiered(one, ram=MB) for one in PAIRS[name]]
    for _ in range(2):
        for cached, source in zip(caches, PAIRS[name], strict=True):
            assert content(cached) == content(source)


IN_ANOTHER_PROCESS = """
import json, random, sys
sys.path.insert(0, {here!r})
random.random(), object()
from test_identity import PAIRS
from hotlap.data import identity
print(json.dumps([[identity.attributes(one) for one in pair] for pair in PAIRS.values()]))
"""


def test_every_process_comes_to_the_same_identity():
    """Whatever its addresses are, and however it hashes strings."""
    script = IN_ANOTHER_PROCESS.format(here=os.path.dirname(__file__))
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert json.loads(found[0]) == json.loads(found[1])


def test_sets_are_told_without_their_order():
    assert identity.digest({"a", "b", "c"}) == identity.digest({"c", "b", "a"})
    assert identity.digest({"a"}) != identity.digest({"b"})


@pytest.mark.parametrize(
    "value",
    [{(1, 2): 3}, torch.ones(2, 2).to_sparse(), torch.ones(2, device="meta"), object(), range(3)],
)
def test_values_of_every_kind_have_a_digest(value):
    assert identity.digest(value) == identity.digest(value)


def test_large_tensors_are_read_in_part():
    large = torch.zeros(2 * identity.LARGEST, dtype=torch.uint8)
    changed = large.clone()
    changed[:] = 1
    assert identity.digest(large) != identity.digest(changed)


class Counting(Rows):
    def __init__(self, rows):
        super().__init__(rows)
        self.asked, self.file = 0, None

    def __getitem__(self, index):
        self.asked += 1
        self.file = self.file or os.devnull
        return super().__getitem__(index)


def test_what_making_samples_changes_is_no_part_of_it(tmp_path):
    source = Counting(list(range(20)))
    first = Tiered(source, ram=0, disk=MB, path=tmp_path)
    content(first)
    again = Tiered(Counting(list(range(20))), ram=0, disk=MB, path=tmp_path)
    assert content(again) == content(source)
    assert again.hits()["disk"] == 20 + 1


class Slots:
    __slots__ = ("rows",)

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def test_a_set_needs_no_attributes_of_the_usual_kind():
    """Lists are data sets, and so is what has slots."""
    assert list(Tiered([1, 2, 3], ram=MB)) == [1, 2, 3]
    assert content(Tiered(Slots([4, 5]), ram=MB)) == [4, 5]
    assert identity.attributes(Slots([4, 5])) != identity.attributes(Slots([4, 6]))
