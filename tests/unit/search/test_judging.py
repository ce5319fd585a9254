"""What a row is called: from what is proven, and from what only seems so."""

from __future__ import annotations

import pytest

from hotlap.recipes import Recipe
from hotlap.search import guarding, judging
from hotlap.search.book import BASELINE, Request
from hotlap.search.comparing import Spread
from hotlap.search.planning import Choice
from hotlap.tunings import FASTER, SAME, SLOWER, SMALLER, UNPROVEN, Guard, Run, Speedup

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


def test_an_interval_that_holds_everything_is_no_answer() -> None:
    status, reason = judged(Book(0.26, 476.8))
    assert status == UNPROVEN
    assert reason == "one run is too few to tell anything on a machine this noisy"


class Shelf(Book):
    """The same of a recipe that is told by its memory; it is as fast as the other."""

    def __init__(self, low: float, high: float, *, proven: bool = False, runs: int = 1) -> None:
        super().__init__(1.0, 1.0, runs=runs)
        self._less = Speedup(ratio=(low * high) ** 0.5, low=low, high=high)
        self._smaller = proven

    def proves_smaller(self, reference: Recipe, recipe: Recipe) -> bool:
        return self._smaller

    def shrinkage(self, reference: Recipe, recipe: Recipe) -> Speedup:
        return self._less

    def spread_of_peaks(self) -> Spread:
        return Spread(deviation=0.15, degrees=2.0)


def by_memory(book: Shelf) -> tuple[str, str]:
    request = Request(choice=Choice(goal="memory"), budget=60.0)
    return judging.judge(book, RECIPE, BASELINE, PASSED, request)  # type: ignore[arg-type]


def test_less_memory_that_is_proven_is_smaller() -> None:
    assert by_memory(Shelf(1.1, 1.3, proven=True)) == (SMALLER, "")


def test_less_memory_within_the_scatter_is_no_difference_and_says_so() -> None:
    assert by_memory(Shelf(0.8, 1.4)) == (SAME, "peaks scatter by 15 % from run to run")


def test_less_memory_that_only_seems_so_is_unproven() -> None:
    status, reason = by_memory(Shelf(1.01, 1.4, runs=2))
    assert status == UNPROVEN
    assert "2 runs are too few" in reason


def test_memory_that_is_less_by_next_to_nothing_is_no_difference() -> None:
    assert by_memory(Shelf(1.009, 1.011, proven=True)) == (SAME, "")


@pytest.mark.parametrize(
    ("name", "ratio", "high", "stays"),
    [
        ("channels-last", 1.03, 1.5, True),  # likely, and free
        ("channels-last", 1.01, 1.5, False),
        ("compile", 1.03, 1.05, True),  # proven
        ("compile", 1.05, 1.11, False),  # likely, but too little for what it costs
        ("compile", 1.2, 1.9, False),  # large, but nearly as likely luck
        ("compile", 1.76, 3.48, True),  # two runs on a noisy machine
    ],
)
def test_a_part_stays_for_what_it_gives_and_costs(
    name: str, ratio: float, high: float, stays: bool
) -> None:
    gain = Speedup(ratio=ratio, low=ratio * ratio / high, high=high)
    assert judging.contributes(name, gain) is stays
