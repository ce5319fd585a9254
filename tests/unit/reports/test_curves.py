"""What is drawn is what was measured: gaps stay gaps, spikes stay, lengths stay."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.reports import curves

SERIES = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), max_size=300)


@given(SERIES)
def test_a_smoothed_curve_is_as_long_as_the_curve_and_has_its_gaps(values):
    found = curves.smoothed(values)
    assert [one is None for one in found] == [one is None for one in values]


@given(SERIES)
def test_a_smoothed_curve_stays_within_what_was_measured(values):
    known = [one for one in values if one is not None]
    for one in curves.smoothed(values):
        if one is not None:
            assert min(known) - 1e-6 <= one <= max(known) + 1e-6


def test_what_is_no_number_is_a_gap():
    assert curves.smoothed([1.0, math.nan, 3.0]) == [1.0, None, 3.0]
    assert curves.mean([[1.0, math.inf], [3.0, 5.0]]) == [2.0, 5.0]


def test_a_mean_reaches_as_far_as_the_shortest_curve_that_is_there():
    assert curves.mean([[1.0, 2.0, 3.0], [], [3.0, 4.0]]) == [2.0, 3.0]
    assert curves.mean([]) == []


@pytest.mark.parametrize("length", [0, 1, 599, 600, 601, 5000])
def test_a_thinned_curve_is_short_and_keeps_its_ends(length):
    at, values = curves.thinned([float(one) for one in range(length)])
    assert len(at) == len(values) <= 602
    if length:
        assert (at[0], at[-1]) == (1, length)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=3000))
def test_no_spike_is_thinned_away(values):
    at, kept = curves.extremes(values)
    assert max(kept) == max(values)
    assert min(kept) == min(values)
    assert at == sorted(at)
    assert len(kept) <= 602
