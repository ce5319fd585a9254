"""Caches of different data sets are apart, and that of one is found again."""

import argparse
import collections
import dataclasses
import datetime
import functools
import importlib
import io
import json
import operator
import os
import subprocess
import sys
from threading import Lock
from types import FunctionType, MappingProxyType, SimpleNamespace

import numpy
import pytest
import torch
from numbers_kept import MB
from torch.utils.data import Subset, TensorDataset

from hotlap.data import identity, telling
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


def identities():
    known = [[identity.attributes(one) for one in pair] for pair in PAIRS.values()]
    return [known, [identity.digest(make(0.1)) for make in OPTIONS]]


IN_ANOTHER_PROCESS = """
import json, random, sys
sys.path.insert(0, {here!r})
random.random(), object()
from test_identity import identities
print(json.dumps(identities()))
"""


def test_every_process_comes_to_the_same_identity():
    """Whatever its addresses are, and however it hashes strings."""
    script = IN_ANOTHER_PROCESS.format(here=os.path.dirname(__file__))
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    here = importlib.import_module("test_identity")  # by the name it has there
    assert json.loads(done.stdout) == json.loads(json.dumps(here.identities()))


def test_sets_are_told_without_their_order():
    assert identity.digest({"a", "b", "c"}) == identity.digest({"c", "b", "a"})
    assert identity.digest({"a"}) != identity.digest({"b"})


@pytest.mark.parametrize(
    "value",
    [{(1, 2): 3}, torch.ones(2, 2).to_sparse(), torch.ones(2, device="meta"), object(), range(3)],
)
def test_values_of_every_kind_have_a_digest(value):
    assert identity.digest(value) == identity.digest(value)


def changed(tensor, at):
    other = tensor.clone()
    other.view(-1)[at] += 1
    return other


@pytest.mark.parametrize("shape", [(1 << 25,), (1, 1 << 25), (3, 1 << 13, 1 << 12)])
def test_large_tensors_are_read_to_the_last_byte(shape):
    large = torch.zeros(shape, dtype=torch.uint8)
    for other in (changed(large, 12_345_677), changed(large, large.numel() - 1)):
        assert identity.digest(large) != identity.digest(other)
    assert identity.digest(large) == identity.digest(large.clone())


def test_labels_that_differ_in_a_few_of_millions_are_others():
    labels = torch.arange(2_200_000) % 10
    few = labels.clone()
    few[torch.randperm(len(labels))[:11_000]] += 1
    known = [identity.attributes(TensorDataset(one)) for one in (labels, few, labels.clone())]
    assert known[0] == known[2] != known[1]


def test_one_entry_of_a_long_list_makes_another():
    rows = [(f"images/{at}.jpg", at % 10) for at in range(400_000)]
    for at in (0, 123_457, 399_999):
        other = [*rows[:at], ("images/other.jpg", 0), *rows[at + 1 :]]
        assert identity.digest(rows) != identity.digest(other)
    assert identity.digest(rows) == identity.digest(list(rows))


@dataclasses.dataclass
class Options:
    noise: float
    more: object = None


@dataclasses.dataclass(slots=True)
class Slotted:
    noise: float


class Plain:
    def __init__(self, noise):
        self.noise = noise


class Ring:
    def __init__(self, noise):
        self.noise, self.itself, self.others = noise, self, [self]


def scaled(factor):
    return lambda value: value * factor


OPTIONS = [
    lambda noise: argparse.Namespace(noise=noise),
    lambda noise: SimpleNamespace(noise=noise),
    Options,
    Slotted,
    Plain,
    Ring,
    lambda noise: Options(0.5, more=Plain(noise)),
    lambda noise: {"deep": [Plain(SimpleNamespace(noise=noise))]},
    lambda noise: {("a", 1): noise},
    lambda noise: {("a", 1): {2: Plain(noise)}},
    lambda noise: functools.partial(max, noise),
    scaled,
    lambda noise: Plain(noise).__init__,
    lambda noise: bytearray([int(10 * noise)]),
    lambda noise: collections.deque([noise]),
    lambda noise: MappingProxyType({"noise": noise}),
    lambda noise: numpy.array([noise, "a"], dtype=object),
    lambda noise: numpy.array([(noise, 1)], dtype=[("noise", "f8"), ("label", "i8")]),
    lambda noise: numpy.full((3, 4), noise).T,
    lambda noise: numpy.array([str(noise)]),
    lambda noise: datetime.timedelta(seconds=noise),
    lambda noise: "long " * 100 + str(noise),
    lambda noise: {Options: noise}[Options],
    lambda noise: [[noise], {noise}],
    lambda noise: functools.cache(scaled(noise)),
    lambda noise: numpy.vectorize(scaled(noise)),
    lambda noise: operator.itemgetter(noise),
    lambda noise: operator.attrgetter(f"noise{noise}"),
    lambda noise: operator.methodcaller("noise", level=noise),
    lambda noise: slice(noise),
    lambda noise: complex(1, noise),
    lambda noise: numpy.dtype("f4" if noise else "f8"),
    lambda noise: memoryview(str(noise).encode()),
    lambda noise: io.BytesIO(str(noise).encode()),
    lambda noise: torch.eye(3).mul(noise + 1).to_sparse(),
    lambda noise: numpy.ma.array([1, 2], mask=[bool(noise), False]),
]


@pytest.mark.parametrize("make", OPTIONS)
def test_options_of_every_kind_are_looked_into(make):
    of = [identity.attributes(SimpleNamespace(args=make(noise))) for noise in (0.0, 0.1, 0.0)]
    assert of[0] == of[2]
    assert of[0] != of[1]
    assert identity.digest([make(0.0)]) == identity.digest([make(0.0)])
    assert identity.digest([make(0.0)]) != identity.digest([make(0.1)])


def test_a_list_is_no_tuple():
    of = [identity.attributes(SimpleNamespace(args=make([1, 2]))) for make in (list, tuple)]
    assert of[0] != of[1]


def test_options_are_apart_on_disk(tmp_path):
    class Noisy(Rows):
        def __getitem__(self, index):
            return self.rows[index] + (self.transform.noise if index == 7 else 0)

    for noise in (0.0, 0.5, 0.0):
        source = Noisy(list(range(50)), SimpleNamespace(noise=noise))
        assert content(Tiered(source, ram=0, disk=MB, path=tmp_path)) == content(source)


def test_the_number_of_a_process_and_open_files_are_no_part_of_it(tmp_path):
    with open(tmp_path / "one", "w") as file:
        held = identity.attributes(SimpleNamespace(pid=os.getpid(), file=file, lock=Lock()))
    assert held == {"file": None, "lock": None}


def test_a_mapped_file_too_large_to_read_is_known_by_its_age_and_the_part(tmp_path, monkeypatch):
    monkeypatch.setattr(telling, "MAPPED", 1000)
    path = tmp_path / "numbers"
    path.write_bytes(bytes(20_000))
    mapped = numpy.memmap(path, dtype="u1", mode="r")
    assert identity.digest(mapped) == identity.digest(numpy.memmap(path, dtype="u1", mode="r"))
    assert identity.digest(mapped[:8192]) != identity.digest(mapped[4096 : 8192 + 4096])
    os.utime(path, (1, 1))
    assert identity.digest(mapped) != identity.digest(numpy.memmap(path, dtype="u1")[:-1])
    path.unlink()
    assert identity.digest(mapped)


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


def test_what_a_script_defines_is_the_same_in_processes_that_it_spawns():
    def seen_from(module):
        made = type("Photos", (), {"__module__": module})
        scale = FunctionType((lambda value: value * 2).__code__, {"__name__": module})
        return identity.digest([made, made(), scale])

    assert seen_from("__main__") == seen_from("__mp_main__") != seen_from("elsewhere")
