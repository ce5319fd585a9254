import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap import stats

times = st.lists(st.floats(min_value=1e-6, max_value=1e4), min_size=1, max_size=50)
parts = st.floats(min_value=0, max_value=1)


@given(times)
def test_the_median_is_the_standard_librarys(values):
    assert stats.median(values) == pytest.approx(statistics.median(values))


@given(times)
def test_the_mean_is_the_standard_librarys(values):
    assert stats.mean(values) == pytest.approx(statistics.fmean(values))


@given(times, parts)
def test_a_quantile_lies_between_the_smallest_and_the_largest(values, q):
    found = stats.quantile(values, q)
    assert min(values) * (1 - 1e-12) <= found <= max(values) * (1 + 1e-12)


@given(times, parts, parts)
def test_quantiles_grow_with_their_part(values, one, other):
    low, high = sorted((one, other))
    assert stats.quantile(values, low) <= stats.quantile(values, high) * (1 + 1e-12)


@given(times, parts)
def test_a_quantile_does_not_depend_on_the_order(values, q):
    assert stats.quantile(values[::-1], q) == stats.quantile(values, q)


def test_the_ends_are_the_smallest_and_the_largest():
    assert stats.quantile([3.0, 1.0, 2.0], 0) == 1.0
    assert stats.quantile([3.0, 1.0, 2.0], 1) == 3.0
    assert stats.quantile([0.0, 10.0], 0.25) == 2.5


@pytest.mark.parametrize("summary", [stats.median, stats.mean])
def test_no_values_have_no_summary(summary):
    with pytest.raises(ValueError, match="of no values"):
        summary([])
