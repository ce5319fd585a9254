"""The numbers of an axis are round, inside it, and never written over each other."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.reports import ticks


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (12.47, 78.45, [15, 20, 30, 50, 70]),
        (6.09, 1124, [10, 30, 100, 300, 1000]),
        (5, 25_360, [10, 100, 1000, 10_000]),
        (12, 15, [12, 12.5, 13, 13.5, 14, 14.5, 15]),
        (7, 7, [7]),
    ],
)
def test_a_logarithmic_axis_has_round_numbers(low, high, found):
    assert ticks.of_logarithmic(low, high) == pytest.approx(found)


@given(low=st.floats(1e-9, 1e9), times=st.floats(1, 1e15))
def test_numbers_lie_on_their_axis_and_have_room(low, times):
    high = low * times
    found = ticks.of_logarithmic(low, high)
    assert all(low * 0.99 <= one <= high * 1.01 for one in found)
    assert len(found) <= 1 + 1 / ticks.CLOSEST
    if len(found) > 1:
        room = ticks.CLOSEST * math.log(found[-1] / found[0])
        assert all(math.log(b / a) >= room * 0.999 for a, b in pairwise(found))


def test_measured_values_that_crowd_are_thinned_from_the_first_on():
    assert ticks.apart([1, 2, 4, 8, 16]) == [1, 2, 4, 8, 16]
    assert ticks.apart([1, 2, 3, 100]) == [1, 2, 100]


def test_large_numbers_are_said_in_millions():
    said = [ticks.worded(one) for one in (0.0005, 12.5, 25_000, 2.5e6)]
    assert said == ["0.0005", "12.5", "25,000", "2.5 M"]


def test_a_telephone_gets_fewer_of_the_numbers_that_were_chosen() -> None:
    batches = [64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0]
    assert ticks.apart(batches) == batches
    assert ticks.apart(batches, ticks.CLOSEST_ON_NARROW) == [64.0, 256.0, 1024.0, 4096.0]
