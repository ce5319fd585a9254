"""Runs that end by themselves: as the command does, or too early."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated
from test_tuner import row, tuned

from hotlap.recipes import Recipe
from hotlap.search import endings
from hotlap.search.tuner import FINAL_RUNS
from hotlap.tunings import FAILED, FASTER, UNPROVEN, Run


def run(steps: int, *, ended: bool = False, samples: int | None = 8) -> Run:
    per_sample = 0.02 / samples if samples else None
    return Run(
        folder="x",
        step_seconds=0.02,
        sample_seconds=per_sample,
        steps=steps,
        ended=ended,
        cold=True,
    )


@pytest.mark.parametrize(
    ("ours", "baselines", "status", "reason"),
    [
        (run(41, ended=True), [run(300), run(160)], FAILED, "was still training"),
        (run(200, ended=True), [run(300), run(160)], FAILED, "was still training"),
        (run(41, ended=True), [run(100, ended=True)], FAILED, "makes 100"),
        (run(400, ended=True), [run(300)], UNPROVEN, "was watched for 300"),
        (run(98, ended=True), [run(100, ended=True)], None, ""),
        (run(100, ended=True), [run(60), run(100, ended=True)], None, ""),
        (run(41), [run(300)], None, ""),
        (run(41, ended=True), [Run(folder="x", status=FAILED)], None, ""),
    ],
)
def test_a_run_that_ends_before_the_command_does_is_no_gain(
    ours: Run, baselines: list[Run], status: str | None, reason: str
) -> None:
    found = endings.checked(ours, baselines)
    assert found.status == status
    assert reason in found.reason
    assert (found.step_seconds is None) == (status is not None)


def test_a_larger_batch_comes_to_the_end_after_fewer_steps() -> None:
    short = [run(100, ended=True, samples=8)]
    assert endings.checked(run(50, ended=True, samples=16), short).status is None
    assert endings.checked(run(30, ended=True, samples=16), short).status == FAILED
    assert endings.checked(run(100, ended=True, samples=16), short).status is None
    assert endings.checked(run(50, ended=True, samples=None), short).status == FAILED


class Ending(Simulated):
    """channels-last is fast, and ends early with exit code 0."""

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        run: Any = super().run(recipe, limit=limit, seed=seed)
        early = "channels-last" in recipe.changes
        return msgspec.structs.replace(run, steps=41 if early else 160, ended=early)


def test_training_that_dies_early_is_never_faster() -> None:
    found = tuned(Ending({"channels-last": 4.0}), only=("channels-last",))
    assert found.winner is None
    assert row(found, "channels-last").status == FAILED
    assert row(found, "channels-last").reason == (
        "ended by itself after 41 steps; the command as it is was still training"
    )


def test_a_run_without_windows_is_not_compared_with_one_that_has_them() -> None:
    class Short(Simulated):
        def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
            run = super().run(recipe, limit=limit, seed=seed)
            return msgspec.structs.replace(run, steps=60, ended=True, windows=self.windows(recipe))

        def windows(self, recipe: Recipe) -> tuple[float, ...]:
            return () if recipe else (0.01, 0.01)

    found = tuned(Short({"channels-last": 4.0}), only=("channels-last",))
    assert found.winner is None
    assert row(found, "channels-last").status == UNPROVEN
    assert row(found, "channels-last").speedup is None
    Short.windows = lambda self, recipe: ()  # type: ignore[method-assign]
    found = tuned(Short({"channels-last": 4.0}), only=("channels-last",))
    assert row(found, "channels-last").status == FASTER


def test_a_recipe_that_fails_in_its_last_run_is_no_winner() -> None:
    class Dies(Simulated):
        def run(self, recipe: Any, *, limit: float, seed: int = 0) -> Any:
            run = super().run(recipe, limit=limit, seed=seed)
            if recipe.changes and self.log.count(recipe.label()) == FINAL_RUNS:
                return Run(folder="x", seconds=6.0, status=FAILED, reason="device lost")
            return run

    found = tuned(Dies({"channels-last": 2.0}), only=("channels-last",))
    assert found.winner is None
    assert [(one.status, one.reason) for one in found.trials if one.status == FAILED] == [
        (FAILED, "device lost")
    ]
