"""Which row is first, which of the others may be as good, and how a reading begins with that."""

import pytest

from hotlap.answers import FAILED, Row
from hotlap.studies import standings


def row(name, value, half=None):
    intervals = {} if half is None else {"x": (value - half, value + half)}
    return Row(name=name, values={"x": value}, intervals=intervals)


def test_a_row_from_which_all_others_differ_is_proven_to_be_first():
    rows = [
        row("a", 3.0, 0.1),
        row("b", 1.0, 0.1),
        row("c", 2.0, 0.1),
        Row(name="d", status=FAILED),
    ]
    least, most = (standings.standing(rows, "x", most=most) for most in (False, True))
    assert (least.names, most.names) == (["b"], ["a"])
    assert standings.opening(least, ", 1.00 s") == "Best: b, 1.00 s"


def test_one_that_may_be_as_good_leaves_nobody_best():
    found = standings.standing([row("a", 1.0, 0.2), row("and b", 1.1, 0.2), row("c", 2, 0.2)], "x")
    assert found.names == []
    assert standings.opening(found, ", 1.00 s") == (
        "No row is proven fastest: first is a, 1.00 s, but 'and b' cannot be told from it within "
        "the noise"
    )


def test_without_an_interval_nothing_is_proven_however_far_apart():
    found = standings.standing([row("a", 1.0, 0.1), row("b", 1.1, 0.3), row("c", 90.0)], "x")
    assert not found.proven
    assert standings.doubts(found) == (
        "b cannot be told from it within the noise and c cannot be held against it without "
        "intervals"
    )
    found = standings.standing([row("a", 1.0), row("b", 90.0, 0.1)], "x")
    assert standings.opening(found, "", word="best") == (
        "No row is proven best: first is a, but b cannot be held against it without intervals"
    )


def test_many_rows_are_counted_and_one_alone_is_called_so():
    many = standings.standing([row(f"{at}", 1.0 + at / 100, 0.5) for at in range(6)], "x")
    assert standings.doubts(many).startswith("5 other rows cannot be told from it")
    alone = standings.standing([row("a", 1.0, 0.1), Row(name="b", status=FAILED)], "x")
    assert alone.names == []
    assert standings.opening(alone, ", 1.00 s") == "Only one row was measured: a, 1.00 s"
    assert standings.standing([Row(name="b", status=FAILED)], "x") is None


def test_a_ratio_of_two_rows_has_the_errors_of_both():
    found = standings.times(row("a", 2.0, 0.1), row("b", 1.0, 0.05), "x")
    assert found.ratio == 2.0
    assert found.low == pytest.approx(2.0 / 1.073, rel=0.01)
    assert found.high == pytest.approx(2.0 * 1.073, rel=0.01)
    assert standings.times(row("a", 2.0), row("b", 1.0, 0.05), "x") is None
    assert standings.times(row("a", 2.0, 3.0), row("b", 1.0, 0.05), "x") is None
