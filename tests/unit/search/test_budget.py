"""What a budget buys, and what it need not pay for."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated, profile

from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import concluding
from hotlap.search.book import BASELINE, Book, Request
from hotlap.search.planning import Choice
from hotlap.search.tuner import Found, Tuner
from hotlap.tunings import SAME, UNPROVEN, Run


def tuned(machine: Simulated, budget: float) -> Found:
    first = machine.run(Recipe(), limit=60)
    return Tuner(machine, profile(), first, Request(choice=Choice(), budget=budget)).tune()


class Resumed(Simulated):
    """Has every run already: a budget that is spent does not stop what costs nothing."""

    def knows(self, recipe: Recipe, *, full: bool) -> bool:
        return True


def test_runs_that_are_there_already_need_no_budget() -> None:
    factors = {"loader-workers": 2.0, "channels-last": 1.3}
    assert tuned(Simulated(factors), budget=1.0).winner is None
    found = tuned(Resumed(factors), budget=1.0)
    assert found.winner is not None
    assert found.winner.speedup.low > 2.0


def test_what_the_budget_lacks_is_said() -> None:
    said: list[str] = []
    machine = Simulated({"loader-workers": 2.0})
    first = machine.run(Recipe(), limit=60)
    request = Request(choice=Choice(), budget=20.0)
    Tuner(machine, profile(), first, request, say=said.append).tune()
    assert any("s are left" in text and "takes about" in text for text in said)


class Looked(Simulated):
    """Notes the recipes whose phases were taken apart."""

    def __init__(self, factors: dict[str, float]) -> None:
        super().__init__(factors)
        self.looked_at: list[Recipe] = []

    def profile(self, recipe: Recipe, *, limit: float) -> tuple[Run, Profile | None]:
        self.looked_at.append(recipe)
        return super().profile(recipe, limit=limit)


def test_the_phases_of_a_winner_come_with_one_of_its_last_runs() -> None:
    missing = []
    for budget in range(60, 260, 10):
        machine = Looked({"loader-workers": 2.0, "precision-bf16": 0.97})
        winner = tuned(machine, budget=budget).winner
        if winner is not None and Recipe(winner.recipe) not in machine.looked_at:
            missing.append(budget)
    assert not missing


def test_a_large_part_is_not_dropped_for_want_of_runs() -> None:
    """A noisy machine, and room for a run or two without each part: compiling gives most of it."""
    factors = {"loader-workers": 1.6, "compile": 1.7, "channels-last": 1.1, "precision-bf16": 1.05}
    kept = 0
    for seed in range(20):
        machine = Simulated(factors, noise=0.15, seed=seed, compile_seconds=8.0)
        first = machine.run(Recipe(), limit=60)
        request = Request(choice=Choice(only=tuple(factors)), budget=85.0)
        winner = Tuner(machine, profile(input=0.5, compute=0.45), first, request).tune().winner
        kept += winner is not None and "compile" in winner.recipe
    assert kept >= 17


class SlowToStart(Simulated):
    """Every run takes 15 s, and 8 s more where it has to find what was compiled."""

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        more = 9.0 + (8.0 if recipe.compiled else 0.0)
        self._now += more
        run = super().run(recipe, limit=limit, seed=seed)
        return msgspec.structs.replace(run, seconds=run.seconds + more)


def test_a_large_gain_is_not_lost_where_two_runs_agree_by_chance() -> None:
    """What they proved is shown by the last runs to be noisier: enough of those have to be left."""
    factors = {"loader-workers": 1.6, "compile": 1.7, "channels-last": 1.05, "precision-bf16": 1.1}
    factors["fused-optimizer"] = 1.12
    lost = []
    for seed in range(30):
        machine = SlowToStart(factors, noise=0.15, seed=seed, compile_seconds=17.0)
        first = machine.run(Recipe(), limit=60)
        request = Request(choice=Choice(only=tuple(factors)), budget=295.0)
        diagnosis = profile(compute=0.55, input=0.35, optimizer=0.03, other=0.05)
        if Tuner(machine, diagnosis, first, request).tune().winner is None:
            lost.append(seed)
    assert not lost


def test_what_was_compiled_once_is_not_expected_to_compile_again() -> None:
    machine = Simulated(compile_seconds=30.0)
    book = Book(machine, machine.run(BASELINE, limit=60), 1000.0)
    compiled = Recipe({"compile": {"mode": "default"}})
    assert book.cheapest(compiled) == 6.0  # nothing is known of it
    book.run(compiled)
    assert 6.0 < book.cheapest(compiled) < 36.0
    book.run(compiled)
    assert book.cheapest(compiled) == 6.0


class Told(Simulated):
    """Steps of as many milliseconds as it is told, by how much the recipe changes."""

    def __init__(self, *told: list[float]) -> None:
        super().__init__()
        self.told = told

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        run = super().run(recipe, limit=limit, seed=seed)
        step = self.told[len(recipe.changes)].pop(0) * 1e-3
        return msgspec.structs.replace(
            run, step_seconds=step, sample_seconds=step / 8, windows=(step,) * 3
        )


LARGE = Recipe({"loader-workers": {"workers": 2}})
LARGER = LARGE.having("channels-last", {})


@pytest.mark.parametrize(
    ("last_runs", "held"),
    [([40.0, 95.0, 160.0], LARGE), ([49.0, 48.0, 50.0], LARGER)],
    ids=["not borne out", "borne out"],
)
def test_a_best_that_its_last_runs_do_not_bear_out_gives_way_to_the_one_before(
    last_runs: list[float], held: Recipe
) -> None:
    machine = Told([100.0, 101.0, 99.0, 100.0], [20.0, 20.5, 20.2, 20.1], last_runs)
    book = Book(machine, machine.run(BASELINE, limit=60), 1000.0)
    for recipe in (BASELINE, BASELINE, BASELINE, *[LARGE] * 4, *[LARGER] * 3):
        book.run(recipe)
    request = Request(choice=Choice(), budget=1000.0)
    row, best = concluding.fallback(book, [LARGE, LARGER], request)
    assert best == held
    assert (row is None) == (held == LARGER)
    if row is not None:
        assert row.name == concluding.AGAIN
        assert row.status in (SAME, UNPROVEN)
        assert not row.kept


def test_nothing_takes_the_place_of_a_best_where_nothing_is_proven() -> None:
    machine = Told([100.0, 60.0], [60.0, 100.0])
    book = Book(machine, machine.run(BASELINE, limit=60), 1000.0)
    for recipe in (BASELINE, LARGE, LARGE):
        book.run(recipe)
    request = Request(choice=Choice(), budget=1000.0)
    assert concluding.fallback(book, [LARGE], request) == (None, LARGE)
    assert concluding.fallback(book, [], request) == (None, BASELINE)
