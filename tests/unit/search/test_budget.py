"""What a budget buys, and what it need not pay for."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated, profile

from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search.book import Request
from hotlap.search.planning import Choice
from hotlap.search.tuner import Found, Tuner
from hotlap.tunings import Run


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
