"""What a script changes on a data set is seen; what the data set changes by itself is not told."""

import argparse
import array
import collections
import ctypes
import dataclasses
import functools
import multiprocessing
import pickle
import types

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


class Options:
    def __init__(self):
        self.level = 0


class Slotted:
    __slots__ = ("level", "other")

    def __init__(self):
        self.level = 0


class Further(Slotted):
    """Has slots of the class before it, and a `__dict__` as well."""


@dataclasses.dataclass
class Record:
    level: int = 0


class Named(dict):
    def __init__(self):
        super().__init__(shown=1)
        self.level = 0


def level(held):
    held.level = 1


def value(held):
    held.value = 1


def first(held):
    held[0] = 1


HELD = {
    "an object": (Options(), level),
    "slots": (Slotted(), level),
    "slots further up": (Further(), level),
    "a slot that was empty": (Slotted(), lambda held: setattr(held, "other", 1)),
    "a dataclass": (Record(), level),
    "argparse": (argparse.Namespace(level=0), level),
    "a namespace": (types.SimpleNamespace(level=0), level),
    "a dict with attributes": (Named(), level),
    "an object in a list": ([Options()], lambda held: level(held[0])),
    "an object in an object": (types.SimpleNamespace(a=Options()), lambda held: level(held.a)),
    "what a partial was given": (
        functools.partial(print, Options()),
        lambda held: level(held.args[0]),
    ),
    "a default dict": (collections.defaultdict(int), lambda held: held["a"]),
    "a deque": (collections.deque([0]), first),
    "a set": (set(), lambda held: held.add(1)),
    "bytes": (bytearray(1), first),
    "an array": (array.array("i", [0]), first),
    "an array of numpy": (numpy.zeros(1), first),
    "a number of C": (ctypes.c_int(0), value),
    "a shared number": (multiprocessing.Value("i", 0), value),
    "a shared number without a lock": (multiprocessing.RawValue("i", 0), value),
    "a shared array": (multiprocessing.Array("i", [0]), first),
}


@pytest.mark.parametrize(("held", "change"), HELD.values(), ids=HELD)
def test_what_changes_in_an_object_that_is_held_is_seen(held, change):
    data = Photos()
    data.held = held
    noted = Noted(data)
    assert noted.change() is None
    change(held)
    assert noted.change().startswith("held")


class Loud:
    """None of its code is for us to call."""

    def __init__(self):
        self._level = 0

    def __eq__(self, other):
        raise AssertionError

    def __getattr__(self, name):
        raise AssertionError(name)

    @property
    def level(self):
        raise AssertionError

    @property
    def __class__(self):
        raise AssertionError

    __len__ = __iter__ = __bool__ = __eq__
    __hash__ = None


class LoudDict(dict):
    def keys(self):
        raise AssertionError

    __iter__ = values = items = __len__ = keys


@pytest.mark.parametrize("kind", [Loud, LoudDict])
def test_none_of_its_code_is_called(kind):
    data, held = Photos(), kind()
    data.held = [held]
    noted = Noted(data)
    assert noted.change(closely=True) is None
    held.__dict__["_level"] = 1
    assert noted.change() == "held.0._level"


def test_objects_that_hold_each_other_are_looked_at_once():
    one, other = Options(), Options()
    one.other, other.other = other, one
    data = Photos()
    data.held = one
    noted = Noted(data)
    other.level = 1
    assert noted.change() == "held.other.level"


def test_of_very_many_objects_the_nearest_are_looked_at():
    data = Photos()
    data.far = [[[Options() for _ in range(60)] for _ in range(60)] for _ in range(60)]
    data.near = Options()
    noted = Noted(data)
    assert len(noted._notes) < 600
    data.near.level = 1
    assert noted.change() == "near.level"


class Lazy:
    def __init__(self):
        self._cache = {}

    @functools.cached_property
    def length(self):
        self._cache["length"] = 3
        return 3


def test_what_an_object_works_out_when_it_is_asked_is_no_change():
    data = Photos()
    data.held = Lazy()
    noted = Noted(data)
    assert data.held.length == 3
    assert noted.change() is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("targets", lambda data: data.targets.__setitem__(99, 5)),
        ("array", lambda data: data.array.__setitem__(99, 5)),
    ],
)
def test_what_long_lists_and_arrays_hold_is_compared_where_it_is_asked_for(name, change):
    data = Photos()
    data.array, data.cache = numpy.arange(1000), [None] * 100
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
