"""A run that fills a cache tells nothing: another one is made, or its want is said."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated, profile

from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import judging
from hotlap.search.book import BASELINE, Book, Request
from hotlap.search.planning import Choice
from hotlap.search.tuner import Found, Tuner
from hotlap.tunings import FASTER, SKIPPED, UNPROVEN, Run, Trial

CACHED = Recipe({"sample-cache": {"percent": 50}})


def tuned(
    machine: Simulated, *, budget: float = 1000.0, goal: str = "speed", only: str = "sample-cache"
) -> Found:
    first = machine.run(BASELINE, limit=60)
    request = Request(choice=Choice(only=(only,) if only else (), goal=goal), budget=budget)
    return Tuner(machine, profile(), first, request).tune()


def cached_row(found: Found) -> Trial:
    return next(row for row in found.trials if row.name.startswith("sample-cache"))


class GoneOn(Simulated):
    """Has runs that filled caches before it was interrupted, and those caches no longer."""

    def __init__(self, *, fillings: int, factors: dict[str, float] | None = None) -> None:
        super().__init__(factors or {"sample-cache": 3.0})
        self.fillings = fillings

    def knows(self, recipe: Recipe, *, full: bool) -> bool:
        return recipe == CACHED and self.fillings > 0

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        known = self.knows(recipe, full=False)
        before = self._now, set(self._filled)
        run = super().run(recipe, limit=limit, seed=seed)
        if known:
            self.fillings -= 1
            self._now, self._filled = before
            return msgspec.structs.replace(run, filling=True)
        return run


@pytest.mark.parametrize("fillings", [1, 3])
def test_a_tuning_that_goes_on_fills_its_caches_anew_and_times_what_comes_after(
    fillings: int,
) -> None:
    found = tuned(GoneOn(fillings=fillings))
    row = cached_row(found)
    assert (row.status, row.reason) == (FASTER, "from the second epoch on")
    assert [run.filling for run in row.runs[: fillings + 2]] == [*[True] * (fillings + 1), False]
    assert found.winner is not None
    assert sum(not run.filling for run in found.winner.runs) >= 3


@pytest.mark.parametrize("goal", ["speed", "memory"])
def test_a_tuning_that_goes_on_with_too_little_budget_says_so(goal: str) -> None:
    found = tuned(GoneOn(fillings=1), budget=20.0, goal=goal)
    row = cached_row(found)
    assert (row.status, row.reason) == (UNPROVEN, judging.ONLY_FILLED)
    assert len(row.runs) == 1
    assert found.spent


class SlowToFill(Simulated):
    """Filling takes longer than anything that was run before."""

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        run = super().run(recipe, limit=limit, seed=seed)
        if run.filling:
            self._now += 60.0
            run = msgspec.structs.replace(run, seconds=run.seconds + 60.0)
        return run


@pytest.mark.parametrize("only", ["sample-cache", ""])
def test_what_ran_only_to_fill_its_cache_has_a_row_that_says_so(only: str) -> None:
    machine = SlowToFill({"sample-cache": 3.0})
    found = tuned(machine, budget=50.0, only=only)
    row = next(row for row in found.trials if "sample-cache" in row.recipe)
    assert (row.status, row.reason) == (UNPROVEN, judging.ONLY_FILLED)
    assert [run.filling for run in row.runs] == [True]
    assert found.spent
    if only:
        assert [row.name for row in found.trials].count("sample-cache 50") == 1


def test_a_cache_is_not_filled_where_the_budget_has_no_room_to_use_it() -> None:
    for budget in range(10, 60, 2):
        machine = Simulated({"sample-cache": 3.0})
        row = cached_row(tuned(machine, budget=budget))
        assert machine.log.count(CACHED.label()) != 1
        assert (row.status == SKIPPED) == (CACHED.label() not in machine.log)
        assert row.status != SKIPPED or "--budget" in row.reason


def test_the_phases_of_a_run_that_fills_a_cache_are_not_those_of_the_recipe() -> None:
    seen: list[bool] = []

    class Looked(Simulated):
        def profile(self, recipe: Recipe, *, limit: float) -> tuple[Run, Profile | None]:
            run, found = super().profile(recipe, limit=limit)
            seen.append(run.filling)
            return run, found

    machine = Looked()
    book = Book(machine, machine.run(BASELINE, limit=60), 1000.0)
    assert book.profile(CACHED) is not None
    assert seen == [True, False]
    assert (len(book.runs(CACHED)), book.count(CACHED)) == (2, 1)


def test_a_part_whose_rest_could_only_fill_a_cache_has_not_failed() -> None:
    """Its runs are from before the interruption; those without a part of it would fill anew."""

    class Rest(Simulated):
        forgets = True

        def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
            rest = recipe == CACHED and self.forgets
            if rest:
                self.forgets = False
                self._filled.discard(recipe.fills)
            run = super().run(recipe, limit=limit, seed=seed)
            if rest:
                self._now += 10_000.0
            return run

    machine = Rest({"sample-cache": 3.0, "channels-last": 2.0})
    first = machine.run(BASELINE, limit=60)
    choice = Choice(only=("sample-cache", "channels-last"))
    found = Tuner(machine, profile(), first, Request(choice=choice, budget=400.0)).tune()
    assert not machine.forgets
    assert not [row.name for row in found.trials if row.status == "failed"]
