"""What has been run: which runs count, now that later ones are known."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated

from hotlap.recipes import Recipe
from hotlap.search import comparing
from hotlap.search.book import BASELINE, Book
from hotlap.tunings import TIMED_OUT, Run

CANDIDATE = Recipe({"channels-last": {}})
COMPILED = Recipe({"compile": {"mode": "default"}})


class Loaded(Simulated):
    """Takes as many seconds, while others burn as many cores, as it is told."""

    def __init__(self, *told: tuple[float, float]) -> None:
        super().__init__()
        self.told = list(told)

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        run = super().run(recipe, limit=limit, seed=seed)
        seconds, others = self.told.pop(0)
        return msgspec.structs.replace(
            run,
            step_seconds=seconds,
            sample_seconds=seconds / 8,
            windows=(seconds,) * 3,
            other_cores=others,
        )


def booked(*told: tuple[float, float]) -> Book:
    machine = Loaded(*told)
    return Book(machine, machine.run(BASELINE, limit=60), 1000.0, cores=2.0)


def test_a_load_that_begins_after_the_first_run_widens_the_interval() -> None:
    book = booked((0.092, 0.02), (0.217, 1.2), (0.251, 1.3), (0.435, 1.5), (0.43, 1.5))
    book.run(BASELINE)
    book.run(CANDIDATE)
    found = book.speedup(BASELINE, CANDIDATE)
    assert found is not None
    assert found.low < 1.0 < found.high
    assert book.spread().deviation > 0.2, "the noise that is shown is not that of one quiet run"


def test_runs_before_the_quietest_one_are_disturbed_too() -> None:
    book = booked((0.2, 1.0), (0.2, 1.1), (0.1, 0.02))
    book.run(BASELINE)
    assert not any(run.disturbed for run in book.runs(BASELINE)), "as far as is known"
    book.run(CANDIDATE)
    assert all(run.disturbed for run in book.runs(BASELINE))
    assert not book.runs(CANDIDATE)[0].disturbed
    assert not book.proves(BASELINE, CANDIDATE), "the load has gone, nothing else"


def test_the_times_of_a_disturbed_pair_are_in_the_ratio_that_is_shown() -> None:
    book = booked((0.1, 0.0), (0.3, 1.0), (0.3, 1.0), (0.1, 1.0), (0.1, 1.0))
    book.run(BASELINE)
    book.run(CANDIDATE)
    slow, fast = book.compared(BASELINE, CANDIDATE)
    assert (len(slow), len(fast)) == (3, 2)
    assert len(comparing.costs(book.runs(BASELINE))) == 1


class Hanging(Simulated):
    """Whatever is not the command as it is makes no step."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds  # that a run of the command takes

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        run = super().run(recipe, limit=limit, seed=seed)
        if recipe == BASELINE:
            return msgspec.structs.replace(run, seconds=self.seconds)
        self._now += limit
        return msgspec.structs.replace(
            run, status=TIMED_OUT, reason=f"no step for {limit:.0f} s", seconds=limit
        )


@pytest.mark.parametrize(
    ("seconds", "budget", "recipe", "reason"),
    [
        (6.0, 1000.0, CANDIDATE, "no step for 120 s"),
        (10.0, 1000.0, CANDIDATE, "no step for 200 s"),
        (6.0, 1000.0, COMPILED, "no step for {left} s: the budget was spent"),
        (6.0, 90.0, CANDIDATE, "no step for {left} s: the budget was spent"),
        (6.0, 10.0, CANDIDATE, "no step for 30 s: the budget was spent"),
    ],
)
def test_what_hangs_is_given_up_before_it_takes_all_the_budget(
    seconds: float, budget: float, recipe: Recipe, reason: str
) -> None:
    machine = Hanging(seconds)
    book = Book(machine, machine.run(BASELINE, limit=60), budget)
    left = f"{book.left():.0f}"
    assert book.run(recipe).reason == reason.format(left=left)
