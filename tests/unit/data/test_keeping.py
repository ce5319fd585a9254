"""What a data set keeps of the samples it makes."""

import os
import random
import time
from collections import Counter

import numpy
import pytest
import torch
from torch.utils.data import Subset

from hotlap.data.keeping import changed_by_samples


class Helper:
    def __init__(self):
        self.number, self.numbers = 0, None


class Counts:
    number = 0

    def __call__(self, value):
        self.number += 1


class Compose:
    """As that of a library."""

    __module__ = "torchvision.transforms"

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, value):
        for one in self.transforms:
            value = one(value)
        return value


class Numbers:
    def __init__(self, ask):
        self.ask, self.number, self.nothing = ask, 0, None
        self.array, self.tensor, self.images = numpy.zeros(9), torch.zeros(9), {}
        self.list, self.counter, self.helper = [], Counter(), Helper()
        self.order_cache = []
        self.transform = Compose([Counts()])

    def __len__(self):
        return 9

    def __getitem__(self, index):
        made = self.ask(self, index)
        return index if made is None else made


def add(array):
    def asked(data, index):
        getattr(data, array)[index] += 1

    return asked


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("number", lambda data, index: setattr(data, "number", data.number + 1)),
        ("array", add("array")),
        ("tensor", add("tensor")),
        ("counter", add("counter")),
        ("list", lambda data, index: data.list.append(index)),
        ("helper", lambda data, index: setattr(data.helper, "number", data.helper.number + 1)),
        ("nothing", lambda data, index: setattr(data, "nothing", not data.nothing)),
        ("transform", lambda data, index: data.transform(index)),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_changes_with_each_sample_is_found_and_nothing_is_changed_here(name, ask, wrapped):
    data = Numbers(ask)
    assert changed_by_samples(Subset(data, range(9)) if wrapped else data) == name
    assert data.number == data.array.sum() == data.tensor.sum() == data.helper.number == 0
    assert not data.list
    assert not data.counter


def opens(data, index):
    data.nothing = data.nothing or os.pipe()


def keeps(data, index):
    data.images.setdefault(index, numpy.zeros(3))


def notes_the_last(data, index):
    data.number, data.nothing, data.helper.numbers = index, [index], numpy.full(3, index)


def draws(data, index):
    data.number, data.helper.number = random.random(), torch.rand(()).item()


def fails(data, index):
    raise OSError


@pytest.mark.parametrize(
    "ask",
    [
        *(opens, keeps, notes_the_last, draws, fails),
        lambda data, index: data.order_cache.append(index),
        lambda data, index: os._exit(1),
        lambda data, index: print("made", flush=True),
    ],
)
def test_what_comes_once_or_is_the_same_for_the_same_samples_is_none(ask, capfd):
    state = random.getstate()
    assert changed_by_samples(Numbers(ask)) is None
    assert random.getstate() == state
    assert capfd.readouterr().out == ""


def mixes(data, index):
    """With the one before."""
    mixed = (index, data.number)
    data.number = index
    return mixed


def mixes_some(data, index):
    mixed = (index, data.helper.number if index % 4 == 0 else 0)
    data.helper.number = index
    return mixed


def mixes_in_place(data, index):
    data.array *= 0.5
    data.array[0] += index
    data.array[1:] = 0
    return data.array


@pytest.mark.parametrize(
    ("name", "ask"), [("number", mixes), ("helper", mixes_some), ("array", mixes_in_place)]
)
def test_what_the_sample_before_left_is_found_where_the_next_is_made_with_it(name, ask):
    assert changed_by_samples(Numbers(ask)) == name


def writes_in_one_place(data, index):
    data.array[:] = index
    data.path = str(index)
    return data.array


def keeps_the_latest(data, index):
    """As a cache of two does."""
    data.images[index] = data.images.pop(index, None) or numpy.full(3, index)
    while len(data.images) > 2:
        data.images.pop(next(iter(data.images)))
    return data.images[index]


@pytest.mark.parametrize("ask", [writes_in_one_place, keeps_the_latest])
def test_what_a_sample_leaves_that_the_next_does_without_is_none(ask):
    assert changed_by_samples(Numbers(ask)) is None


def test_samples_that_take_long_are_not_waited_for():
    data = Numbers(lambda data, index: time.sleep(60))
    began = time.monotonic()
    assert changed_by_samples(data, seconds=0.1) is None
    assert time.monotonic() - began < 30


def test_a_data_set_with_memory_that_processes_share_is_not_asked():
    data = Numbers(add("tensor"))
    data.tensor.share_memory_()
    assert changed_by_samples(data) is None
    assert data.tensor.sum() == 0
