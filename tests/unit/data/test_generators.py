"""Generators that a data set or its transform hold: found, watched, and put back."""

import functools
import random
import types

import numpy
import pytest
import torch
from torch.utils.data import Dataset

from hotlap.data import layers
from hotlap.data.layers import NotCacheable

SELDOM = 1e-9  # a coin that comes out the same for as long as anyone looks
INDICES = [0, 3, 7]
KINDS = {
    "torch": (
        lambda: torch.Generator().manual_seed(1),
        lambda one: float(torch.rand((), generator=one)),
    ),
    "random": (lambda: random.Random(1), lambda one: one.random()),
    "numpy": (lambda: numpy.random.default_rng(1), lambda one: one.random()),
    "numpy, old": (lambda: numpy.random.RandomState(1), lambda one: one.rand()),
}


class Photos(Dataset):
    def __init__(self, transform=None, draw=None):
        self.transform, self.draw = transform, draw

    def __len__(self):
        return 8

    def __getitem__(self, index):
        value = torch.arange(4) + index
        value = value if self.transform is None else self.transform(value)
        return value.flip(0) if self.draw is not None and self.draw() < SELDOM else value


class Coin:
    def __init__(self, draw, generator):
        self.draw, self.generator = draw, generator

    def __call__(self, value):
        return value.flip(0) if self.draw(self.generator) < SELDOM else value


class Nested(Coin):
    def __init__(self, draw, generator):
        super().__init__(draw, types.SimpleNamespace(options={"generator": generator}))

    def __call__(self, value):
        return value.flip(0) if self.draw(self.generator.options["generator"]) < SELDOM else value


class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, value):
        for one in self.transforms:
            value = one(value)
        return value


def double(value):
    return value * 2


HOLDERS = {
    "an attribute": Coin,
    "an object within": Nested,
    "a closure": lambda draw, one: lambda value: Coin(draw, one)(value),
    "a partial": lambda draw, one: functools.partial(
        lambda value, given: Coin(draw, given)(value), given=one
    ),
    "a method": lambda draw, one: Coin(draw, one).__call__,
    "a part": lambda draw, one: Compose(double, Coin(draw, one)),
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize(("make", "draw"), KINDS.values(), ids=KINDS)
def test_a_coin_that_always_came_out_the_same_is_tossed_above_the_cache(make, draw, hold):
    generator, other = make(), make()
    transform = hold(draw, generator)
    found = layers.below(Photos(transform), INDICES)
    last = transform.transforms[-1] if isinstance(transform, Compose) else transform
    assert found.rest == (last,)
    assert draw(generator) == draw(other), "looking moves it"


@pytest.mark.parametrize(("make", "draw"), KINDS.values(), ids=KINDS)
def test_a_coin_of_the_data_sets_own_makes_its_samples_random(make, draw):
    with pytest.raises(NotCacheable, match="not by its transform alone"):
        layers.below(Photos(double, functools.partial(draw, make())), INDICES)


@pytest.mark.parametrize("chance", [0.02, 0.5])
def test_what_such_a_transform_makes_is_compared_with_its_numbers(chance):
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        coin = Coin(lambda one: float(torch.rand((), generator=one)) * SELDOM / chance, generator)
        assert layers.below(Photos(coin), INDICES).rest == (coin,)


class Seeded(Photos):
    """The same numbers for the same sample: its generator begins anew for each."""

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator()

    def __getitem__(self, index):
        return torch.rand(3, generator=self.generator.manual_seed(index))


def test_one_that_begins_anew_for_each_sample_is_not_random():
    assert layers.below(Seeded(), INDICES).rest == ()


def test_those_that_everyone_shares_are_no_ones_own():
    data = Photos()
    data.generator = torch.random.default_generator
    data.others = [numpy.random.mtrand._rand, random._inst]
    assert layers.below(data, INDICES).rest == ()
