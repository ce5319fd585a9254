"""What is set on a data set while it makes samples."""

import random
import threading

import pytest
import torch
from torch.utils.data import Subset

from hotlap.data.assigned import noted


class Slotted:
    __slots__ = ("value",)

    def __call__(self, value):
        self.value = value
        return value


class Own:
    """With a way of its own to set attributes, which a class below it has as well."""

    def __setattr__(self, name, value):
        super().__setattr__(name, (name, value))

    def __call__(self, value):
        self.drawn = value
        return value


class Below(Own):
    pass


class Layer(torch.nn.Module):
    def forward(self, value):
        self.size = value
        return value


class Chain:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, value):
        for one in self.transforms:
            value = one(value)
        return value


class Data:
    def __init__(self, transform):
        self.transform, self.file = transform, None
        self.local, self.random, self.seen = threading.local(), random.Random(), {}
        self.tensor = torch.zeros(3)

    def __getitem__(self, index):
        self.file = self.file or object.__new__(object)
        self.local.index = index
        self.seen[index] = self.random.gauss(0, 1)
        return self.transform(index)

    def __len__(self):
        return 9


@pytest.mark.parametrize(
    ("transform", "names"),
    [
        (Chain(Slotted()), ["transform.transforms[0].value"]),
        (Own(), ["transform.drawn"]),
        (Below(), ["transform.drawn"]),
        (Chain(Layer()), ["transform.transforms[0].size"]),
        (Chain(Chain()), []),
    ],
)
def test_what_is_set_is_named_and_classes_are_left_as_they_were(transform, names):
    kinds = (Slotted, Own, Below, Layer, Data, Chain, torch.nn.Module)
    before = [vars(kind).get("__setattr__") for kind in kinds]
    data = Data(transform)
    with noted(Subset(data, range(4))) as found:
        assert "__setattr__" not in vars(torch.Tensor)
        data[1]
    assert found == ["dataset.file", *(f"dataset.{name}" for name in names)]
    assert [vars(kind).get("__setattr__") for kind in kinds] == before


def test_what_is_set_is_set_as_before_also_where_it_fails():
    data = Data(Chain(Below(), {}.__getitem__))
    with pytest.raises(KeyError), noted(data):
        data[1]
    assert data.transform.transforms[0].drawn == ("drawn", 1)
    assert "__setattr__" not in vars(Below)


def test_objects_that_came_later_are_not_named():
    data = Data(lambda value: Slotted()(value))
    data[0]
    with noted(data) as found:
        data[1]
    assert found == ["file"]
