"""What a row is called: from what is proven, and from what only seems so."""

from __future__ import annotations

import pytest

from hotlap.recipes import Recipe
from hotlap.search import guarding, judging
from hotlap.search.book import BASELINE, Request
from hotlap.search.planning import Choice
from hotlap.tunings import FASTER, SAME, SLOWER, UNPROVEN, Guard, Run, Speedup

RECIPE = Recipe({"loader-workers": {"workers": 2}})
PASSED = Guard(status=guarding.PASSED, reason="same loss curve", steps=100)


class Book:
    """Tells what it was told about the one recipe."""

    def __init__(self, low: float, high: float, *, proven: bool = False, runs: int = 1) -> None:
        self._speedup = Speedup(ratio=(low * high) ** 0.5, low=low, high=high)
        self._proven = proven
        self._runs = [Run(folder="x", seconds=1.0)] * runs

    def proves(self, reference: Recipe, recipe: Recipe) -> bool:
        return self._proven

    def speedup(self, reference: Recipe, recipe: Recipe) -> Speedup:
        return self._speedup

    def runs(self, recipe: Recipe) -> list[Run]:
        return self._runs


def judged(book: Book) -> tuple[str, str]:
    request = Request(choice=Choice(), budget=60.0)
    return judging.judge(book, RECIPE, BASELINE, PASSED, request)  # type: ignore[arg-type]


def test_an_interval_around_one_is_no_difference() -> None:
    assert judged(Book(0.9, 1.2)) == (SAME, "")


def test_an_interval_below_one_is_slower() -> None:
    assert judged(Book(0.7, 0.9)) == (SLOWER, "")


def test_what_is_proven_is_faster() -> None:
    assert judged(Book(1.1, 1.3, proven=True)) == (FASTER, "")


@pytest.mark.parametrize(("runs", "words"), [(1, "one run is too few"), (2, "2 runs are too few")])
def test_an_interval_above_one_that_proves_nothing_is_never_no_difference(
    runs: int, words: str
) -> None:
    status, reason = judged(Book(2.07, 11.9, runs=runs))
    assert status == UNPROVEN
    assert words in reason
