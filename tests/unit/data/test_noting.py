"""What a script changes on a data set is seen; what the data set changes by itself is not told."""

import pickle

import numpy
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from hotlap.data.concurrent import Concurrent
from hotlap.data.noting import Noted


class Crop:
    def __init__(self):
        self.size = 8

    def __call__(self, value):
        return value


class Chain:
    def __init__(self):
        self.transforms = [Crop(), Crop()]

    def __call__(self, value):
        return value


class Photos(Dataset):
    def __init__(self):
        self.transform = Chain()
        self.targets, self.labels = list(range(100)), torch.arange(100)
        self.epoch, self.config = 0, {"level": 1}
        self.made, self.file, self.seen = 0, None, {}

    def __len__(self):
        return 100

    def __getitem__(self, index):
        self.made, self.file = self.made + 1, self.file or object()
        self.seen[index] = True
        return index


def set_(name, value):
    return lambda data: setattr(data, name, value)


CHANGES = {
    "epoch": (set_("epoch", 1), "epoch"),
    "transform": (set_("transform", None), "transform"),
    "targets": (set_("targets", list(range(100))), "targets"),
    "new": (set_("level", 3), "level"),
    "gone": (lambda data: delattr(data, "epoch"), "epoch"),
    "part": (lambda data: data.transform.transforms.append(Crop()), "transform.transforms"),
    "setting": (lambda data: setattr(data.transform.transforms[1], "size", 9), "size"),
    "entry": (lambda data: data.config.update(level=2), "config"),
    "tensor": (lambda data: data.labels.fill_(0), "labels"),
}


@pytest.mark.parametrize(("change", "name"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "around",
    [
        lambda data: data,
        lambda data: Subset(data, [1, 2]),
        Concurrent,
        lambda a: ConcatDataset([a]),
    ],
)
def test_a_change_is_seen_wherever_the_data_set_is(around, change, name):
    data = Photos()
    noted = Noted(around(data))
    assert noted.change() is None
    change(data)
    assert name in noted.change()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("targets", lambda data: data.targets.__setitem__(99, 5)),
        ("array", lambda data: data.array.__setitem__(99, 5)),
    ],
)
def test_what_long_lists_and_arrays_hold_is_compared_where_it_is_asked_for(name, change):
    data = Photos()
    data.array, data.cache = numpy.arange(100), [None] * 100
    noted = Noted(data)
    data.cache[3] = 5
    noted.settle(closely=True)
    data.cache[4] = 5
    assert noted.change(closely=True) is None
    change(data)
    assert noted.change() is None
    assert noted.change(closely=True) == name


def test_the_same_number_again_is_no_change():
    data = Photos()
    data.epoch = 1000
    noted = Noted(data)
    data.epoch = int("1000")
    assert noted.change() is None


def test_what_reading_changes_is_not_told_and_the_rest_still_is():
    data = Photos()
    noted = Noted(data)
    data[0]
    assert noted.change() is not None
    noted.settle()
    for index in range(90):
        data[index]
    assert noted.change() is None
    data.epoch = 1
    assert noted.change() == "epoch"


def test_what_was_changed_before_is_told_in_another_process_too():
    data = Photos()
    noted = Noted(data)
    there, same = pickle.loads(pickle.dumps((data, noted)))
    assert same.change() is None
    there.epoch = 1
    assert same.change() == "epoch"
    data.epoch = 1
    assert pickle.loads(pickle.dumps(noted)).change() == "epoch"
