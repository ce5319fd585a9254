"""What a recipe's runs come to: what is chance is not shown as a fact."""

from __future__ import annotations

import pytest

from hotlap.search import rows
from hotlap.tunings import Run


def runs(*starts: float) -> list[Run]:
    return [Run(folder="x", step_seconds=0.01, start_seconds=start) for start in starts]


def test_starts_that_overlap_are_as_before_whatever_their_middle() -> None:
    """One run 1 s sooner, then two that were 1 s later: a row and the winner must not disagree."""
    baseline = runs(4.3, 4.2, 4.4)
    assert rows.more_start(runs(3.1), baseline) == pytest.approx(-1.2)
    assert rows.more_start(runs(3.1, 5.4, 5.5), baseline) == 0.0
    assert rows.break_even(runs(3.1, 5.4, 5.5), baseline) is None


def test_starts_that_are_all_later_are_longer() -> None:
    assert rows.more_start(runs(9.0, 9.2), runs(4.3, 4.2)) == pytest.approx(4.85)


def test_a_first_run_that_read_from_the_disk_hides_no_longer_start() -> None:
    assert rows.more_start(runs(9.0, 9.2), runs(20.0, 4.2, 4.4)) == pytest.approx(4.7)


def test_compiling_is_known_to_take_long_from_its_one_cold_run() -> None:
    assert rows.more_start(runs(14.0, 4.3), runs(4.2, 4.4), cold=14.0) == pytest.approx(9.7)
