"""Parts of a recipe that a run refuses: they were not measured, and no recipe has them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated
from test_tuner import row, tuned

from hotlap.recipes import Recipe
from hotlap.search import refusing
from hotlap.search.tuner import Found
from hotlap.tunings import FASTER, NOT_APPLICABLE, Run

ONLY = ("loader-workers", "channels-last", "fused-optimizer")


def always(recipe: Recipe) -> bool:
    return True


def in_use(found: Found) -> set[str]:
    """Optimizations of all that was measured, won or not."""
    shown = [trial.recipe for trial in found.trials if trial.status != NOT_APPLICABLE]
    return {name for recipe in shown for name in recipe}


def test_what_a_bundle_refuses_leaves_the_recipe_and_says_why() -> None:
    factors = {"loader-workers": 2.0, "channels-last": 1.5, "fused-optimizer": 1.3}
    machine = Simulated(factors, refuses={"loader-workers": always})
    shares = {"input": 0.3, "compute": 0.3, "optimizer": 0.3}
    found = tuned(machine, shares=shares, only=ONLY)
    assert found.winner is not None
    assert set(found.winner.recipe) == {"channels-last", "fused-optimizer"}
    assert "loader-workers" not in in_use(found)
    bundle = row(found, "everything promising")
    assert (bundle.status, set(bundle.recipe)) == (FASTER, set(found.winner.recipe))
    refused = next(one for one in found.trials if "loader-workers" in one.recipe)
    assert refused.status == NOT_APPLICABLE
    assert refused.reason == "loader-workers does not go here"


def test_a_bundle_of_which_nothing_is_at_work_is_not_compared() -> None:
    refuses = dict.fromkeys(ONLY, always)
    found = tuned(Simulated(dict.fromkeys(ONLY, 2.0), refuses=refuses), only=ONLY)
    assert found.winner is None
    assert in_use(found) == set()


def test_a_part_that_is_refused_without_another_goes_with_it() -> None:
    machine = Simulated(
        {"loader-workers": 2.0, "channels-last": 1.5},
        refuses={"channels-last": lambda recipe: "fused-optimizer" not in recipe.changes},
    )
    found = tuned(machine, shares={"input": 0.3, "compute": 0.3, "optimizer": 0.3}, only=ONLY)
    assert set(row(found, "without fused-optimizer").recipe) == {"loader-workers"}
    assert found.winner is not None
    part = next(one for one in found.winner.parts if one.name == "fused-optimizer")
    assert part.note == "together with channels-last"


@pytest.mark.parametrize(
    ("names", "refused", "left"),
    [
        (["pinned-memory", "device-prefetch"], {"pinned-memory": "no"}, []),
        (["pinned-memory", "device-prefetch"], {"device-prefetch": "no"}, ["pinned-memory"]),
        (["tf32"], {"compile": "no"}, ["tf32"]),
    ],
)
def test_what_was_at_work_is_the_rest(
    names: list[str], refused: dict[str, str], left: list[str]
) -> None:
    recipe: dict[str, dict[str, Any]] = {name: {} for name in names}
    run = Run(folder="x", refused=refused)
    assert list(refusing.at_work(Recipe(recipe), run).changes) == left
