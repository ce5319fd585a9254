"""What was not tried: the reason is true of the winner, not only of the script alone."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated, profile
from test_tuner import row, tuned

from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import rest
from hotlap.tunings import NOT_APPLICABLE, SKIPPED, Run, Trial

NO_WORKERS = Trial(
    name="persistent-workers",
    recipe={},
    status=NOT_APPLICABLE,
    reason="the loader has no workers",
)


class Undiagnosed(Simulated):
    def profile(self, recipe: Recipe, *, limit: float) -> tuple[Run, Profile | None]:
        return self.run(recipe, limit=limit), None


def test_a_winner_with_workers_is_not_said_to_have_none() -> None:
    found = tuned(Undiagnosed({"loader-workers": 2.0}))
    assert found.winner is not None
    assert "loader-workers" in found.winner.recipe
    assert row(found, "persistent-workers").status == SKIPPED
    assert row(found, "persistent-workers").reason == rest.TOO_LATE
    assert row(found, "tf32").reason == "training runs on the CPU"


def test_where_nothing_was_found_the_script_is_as_it_was() -> None:
    found = tuned(Undiagnosed({}))
    assert found.winner is None
    assert row(found, "persistent-workers") == NO_WORKERS


def test_what_the_budget_had_no_room_for_says_so() -> None:
    recipe = Recipe({"loader-workers": {"workers": 2}})
    (told,) = rest.under(recipe, profile(), [NO_WORKERS], spent=True)
    assert (told.status, told.reason) == (SKIPPED, rest.SPENT)
    (same,) = rest.under(Recipe({"threads": {"threads": 1}}), profile(), [NO_WORKERS], spent=True)
    assert same == NO_WORKERS
