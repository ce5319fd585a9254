"""A copy without the transform leaves the original as it is, whatever wraps it."""

import pytest
import torch
from numbers_kept import MB
from torch.utils.data import ConcatDataset, Dataset, Subset, random_split

from hotlap.data import shortening
from hotlap.data.concurrent import Concurrent
from hotlap.data.layers import NotCacheable
from hotlap.data.shortening import CannotShorten
from hotlap.data.tiered import Tiered


def noise(value):
    return value.float() / 255 + torch.rand(()) / 1000


def floats(value):
    return value.float() / 255


class Bytes(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self.transform(torch.full((4,), index, dtype=torch.uint8)), index


class Passing(Dataset):
    """A wrapper as many write it: what it has not is read from and set on the one inside."""

    def __init__(self, inner):
        self.__dict__["inner"] = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[index]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["inner"], name)

    def __setattr__(self, name, value):
        setattr(self.inner, name, value)


class Shared(Bytes):
    """Its transform is kept where all copies find it."""

    def __init__(self, transform):
        self.settings = {"transform": transform}

    transform = property(
        lambda self: self.settings["transform"],
        lambda self, value: self.settings.update(transform=value),
    )


class Fixed(Bytes):
    def __init__(self, transform):
        self.made = transform

    transform = property(lambda self: self.made)


class Kept(Bytes):
    def __init__(self, transform):
        self.made = transform

    transform = property(
        lambda self: self.made, lambda self, value: self.__dict__.update(made=value)
    )


class Slots:
    __slots__ = ("transform",)
    __len__, __getitem__ = Bytes.__len__, Bytes.__getitem__

    def __init__(self, transform):
        self.transform = transform


def thirds(data):
    return random_split(data, [0.4, 0.6], torch.Generator().manual_seed(0))[1]


WRAPPERS = {
    "none": lambda data: data,
    "concurrent": lambda data: Concurrent(data, threads=4),
    "twice": lambda data: Concurrent(Concurrent(data, threads=2), threads=2),
    "subset": lambda data: Subset(data, [3, 4, 9]),
    "split": thirds,
    "concat": lambda data: ConcatDataset([data, Subset(data, [1, 2])]),
}


@pytest.mark.parametrize("around", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("transform", [noise, floats])
def test_the_samples_of_a_cache_are_transformed_and_the_data_set_is_as_it_was(around, transform):
    data = Bytes(transform)
    wrapped = around(data)
    cached = Tiered(wrapped, ram=MB)
    assert data.transform is transform
    for _ in range(2):
        for index in range(len(wrapped)):
            (value, label), (expected, right) = cached[index], wrapped[index]
            assert value.dtype == torch.float32
            assert label == right
            assert torch.allclose(value, expected, atol=0.001)
    assert cached.hits()["ram"] == len(wrapped)
    if transform is noise:
        assert not torch.equal(cached[0][0], cached[0][0])


@pytest.mark.parametrize("kind", [Kept, Slots])
def test_a_transform_is_found_wherever_the_data_set_itself_keeps_it(kind):
    data = kind(noise)
    assert Tiered(data, ram=MB)[3][0].dtype == torch.float32
    assert Tiered(data, ram=MB).below.told == "samples as they are before noise"
    assert data.transform is noise


@pytest.mark.parametrize(
    "make",
    [
        lambda transform: Passing(Bytes(transform)),
        lambda transform: Tiered(Bytes(transform), ram=MB),
        Shared,
        Fixed,
    ],
)
def test_a_transform_that_cannot_be_replaced_in_a_copy_alone_stays_where_it_is(make):
    data = make(floats)
    cached = Tiered(data, ram=MB)
    assert data.transform is floats
    assert cached.below.told == "whole samples"
    assert all(cached[3][0].dtype == torch.float32 for _ in range(2))
    random = make(noise)
    with pytest.raises(NotCacheable):
        Tiered(random, ram=MB)
    assert random.transform is noise
    assert random[3][0].dtype == torch.float32


@pytest.mark.parametrize(
    ("kind", "told"), [(Shared, "of Shared cannot be set on a copy alone"), (Fixed, "be set")]
)
def test_the_reason_names_the_attribute(kind, told):
    with pytest.raises(CannotShorten, match=told):
        shortening.with_transforms(kind(noise), [])
    with pytest.raises(NotCacheable, match=told):
        Tiered(kind(noise), ram=MB)


def test_parts_with_transforms_of_their_own_are_not_taken_for_one():
    with pytest.raises(NotCacheable, match="parts of ConcatDataset have transforms of their own"):
        Tiered(ConcatDataset([Bytes(noise), Bytes(lambda value: -noise(value))]), ram=MB)
