"""Generators are found where the code of a branch reaches them, and draw the same again."""

import functools
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential

NUMBERS = torch.Generator()
SETTINGS = SimpleNamespace(numbers=NUMBERS)


class Settings:
    numbers = NUMBERS

    @classmethod
    def draw(cls, x):
        return kept(x, cls.numbers)


def kept(x, numbers):
    return (torch.rand(x.shape, generator=numbers, dtype=x.dtype) > 0.5).to(x.dtype)


def drawn(x):
    return kept(x, NUMBERS)


def drawn_further(x):
    return drawn(x)


def by_default(x, numbers=NUMBERS):
    return kept(x, numbers)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.convolution(x) * self.mask(x)


class InComprehension(Masked):
    def mask(self, x):
        return torch.stack([kept(one, NUMBERS) for one in x])


class InLambda(Masked):
    def mask(self, x):
        return (lambda: kept(x, NUMBERS))()


class Static(Masked):
    @staticmethod
    def mask(x):
        return kept(x, NUMBERS)


class Helped(Masked):
    def mask(self, x):
        return drawn_further(x)


class Defaulted(Masked):
    def mask(self, x):
        return by_default(x)


class Attribute(Masked):
    def mask(self, x):
        return kept(x, SETTINGS.numbers)


class ClassMethod(Masked):
    def mask(self, x):
        return Settings.draw(x)


class OfClass(Masked):
    numbers = NUMBERS

    def mask(self, x):
        return kept(x, self.numbers)


class Partial(Masked):
    def __init__(self):
        super().__init__()
        self.mask = functools.partial(drawn)


def enclosed():
    numbers = NUMBERS

    class Enclosed(Masked):
        def mask(self, x):
            return kept(x, numbers)

    return Enclosed


WAYS = [
    *(InComprehension, InLambda, Static, Helped, Defaulted),
    *(Attribute, ClassMethod, OfClass, Partial, enclosed()),
]


@pytest.mark.parametrize("kind", WAYS)
def test_a_generator_that_code_reaches_draws_the_same_again(kind):
    x = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(1)).double()
    found = []
    for container in (nn.Sequential, ReversibleSequential):
        torch.manual_seed(0)
        NUMBERS.manual_seed(0)
        model = container(*[ReversibleBlock(kind(), kind()) for _ in range(3)]).double()
        for _ in range(3):
            model(x).square().mean().backward()
        found.append({name: one.grad for name, one in model.named_parameters()})
    torch.testing.assert_close(*found)
