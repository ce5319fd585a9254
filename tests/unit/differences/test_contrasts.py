"""One figure before and after; and what has no figures in common."""

from __future__ import annotations

import math

import msgspec
import pytest
import sample_tunings as sample
from answered import answer
from hypothesis import given
from hypothesis import strategies as some

import hotlap
from hotlap.comparisons import HIGHER, SAME
from hotlap.differences import contrasts
from hotlap.errors import UsageError


def test_only_two_of_one_kind_are_compared():
    with pytest.raises(UsageError, match=r"is a profile.* is a tuning.*Name two of one kind"):
        hotlap.compare(sample.profile(), sample.tuning())
    other = msgspec.structs.replace(answer(), study="another")
    with pytest.raises(UsageError, match=r"is a study .* is a study another"):
        hotlap.compare(answer(), other)


@given(
    some.floats(1e-3, 1e3),
    some.floats(1e-3, 1e3),
    some.floats(0.0, 0.5),
    some.floats(0.0, 0.5),
)
def test_an_interval_of_a_ratio_is_never_narrower_than_either_of_the_two(a, b, wide, narrow):
    ends = tuple(
        (one * math.exp(-half), one * math.exp(half)) for one, half in ((a, wide), (b, narrow))
    )
    found = contrasts.between("x", "y", "rate", (a, b), (ends[0], ends[1]))
    assert found.ratio is not None
    half = math.log(found.ratio.high / found.ratio.low) / 2
    assert half >= max(wide, narrow) - 1e-9
    assert half <= wide + narrow + 1e-9


def test_values_that_may_be_nothing_are_told_apart_by_their_difference():
    far = contrasts.between("x", "y", "accuracy", (0.0, 0.9), ((0.0, 0.1), (0.8, 1.0)))
    near = contrasts.between("x", "y", "accuracy", (0.0, 0.1), ((0.0, 0.3), (0.0, 0.3)))
    assert (far.outcome, far.ratio) == (HIGHER, None)
    assert near.outcome == SAME
