"""The guard on curves of known making."""

from __future__ import annotations

import math
import random

import pytest

from hotlap.search import guarding


def curve(
    seed: int = 0, *, steps: int = 60, noise: float = 0.05, speed: float = 1.0, end: float = 0.3
) -> list[float | None]:
    chance = random.Random(seed)
    return [
        end + (2.3 - end) * math.exp(-speed * step / 25) + noise * chance.gauss(0, 1)
        for step in range(steps)
    ]


def test_the_same_curve_passes() -> None:
    guard = guarding.check([curve()], [curve()], [curve(1)])
    assert guard.status == "passed"
    assert guard.difference == 0


@pytest.mark.parametrize("seed", range(20))
def test_other_random_numbers_pass(seed: int) -> None:
    assert guarding.check([curve(0)], [curve(seed + 2)], [curve(1)]).status == "passed"


@pytest.mark.parametrize(
    "changed",
    [
        curve(2, speed=0.4),  # learns half as fast
        curve(2, end=0.9),  # does not get as far
        curve(2, speed=-0.5),  # goes the other way
        curve(2, end=0.0, speed=1.8),  # learns too well: something is not trained on any more
    ],
)
def test_other_learning_is_seen(changed: list[float | None]) -> None:
    guard = guarding.check([curve(0)], [changed], [curve(1)])
    assert guard.status == "changed"
    assert "than the baseline's" in guard.reason


def test_a_growing_difference_is_no_scatter() -> None:
    exploding = [loss * math.exp(step / 8) for step, loss in enumerate(curve()) if loss is not None]
    assert guarding.check([curve()], [exploding]).status == "changed"


def test_a_loss_that_stops_being_a_number_is_a_change() -> None:
    broken: list[float | None] = [*curve()[:20], *[None] * 40]
    guard = guarding.check([curve()], [broken])
    assert guard.status == "changed"
    assert "not a number from step 21 on" in guard.reason


def test_a_baseline_that_is_not_a_number_itself_proves_nothing() -> None:
    broken: list[float | None] = [*curve()[:20], *[None] * 40]
    assert guarding.check([broken], [broken]).status == "unclear"


def test_too_few_steps_are_too_few() -> None:
    guard = guarding.check([curve(steps=8)], [curve(steps=8)])
    assert guard.status == "unclear"
    assert "8 steps are too few" in guard.reason


def test_scatter_that_hides_all_learning_is_unclear() -> None:
    noisy = [curve(seed, noise=3.0, steps=24) for seed in range(3)]
    guard = guarding.check([noisy[0]], [noisy[1]], [noisy[2]])
    assert guard.status != "passed"


def test_no_losses_prove_nothing() -> None:
    assert guarding.check([curve()], [()]).status == "unclear"
    assert guarding.check([], [curve()]).status == "unclear"


def test_runs_of_different_lengths_are_compared_where_both_are() -> None:
    guard = guarding.check([curve(steps=200)], [curve(steps=50)])
    assert (guard.status, guard.steps) == ("passed", 50)


def test_a_baseline_that_varies_by_itself_allows_as_much() -> None:
    moved = [loss + 0.4 for loss in curve(5) if loss is not None]
    assert guarding.check([curve(0)], [moved], [curve(1)]).status == "changed"
    seeds = [[loss + 0.3 for loss in curve(1) if loss is not None]]
    assert guarding.check([curve(0)], [moved], seeds).status == "passed"


def test_a_recipe_whose_own_runs_differ_allows_as_much() -> None:
    """Two runs of it lie to both sides of the baseline: chaos, not a change."""
    above = [loss + 0.6 for loss in curve(5) if loss is not None]
    assert guarding.check([curve(0)], [above], [curve(1)]).status == "changed"
    assert guarding.check([curve(0)], [above, curve(6)], [curve(1)]).status != "changed"
    assert guarding.check([curve(0)], [above, above], [curve(1)]).status == "changed"


def test_only_what_is_far_beyond_the_tolerance_is_blatant() -> None:
    moved = [loss + 0.4 for loss in curve(5) if loss is not None]
    assert not guarding.is_blatant(guarding.check([curve(0)], [moved], [curve(1)]))
    broken: list[float | None] = [*curve()[:20], *[None] * 40]
    assert guarding.is_blatant(guarding.check([curve()], [broken]))
    wild = [loss + step for step, loss in enumerate(curve()) if loss is not None]
    assert guarding.is_blatant(guarding.check([curve()], [wild]))
