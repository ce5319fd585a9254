"""The search on a machine that only does arithmetic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulated import Simulated, profile

from hotlap.recipes import Recipe
from hotlap.search.book import Request
from hotlap.search.planning import Choice
from hotlap.search.tuner import Found, Tuner
from hotlap.tunings import (
    CHANGED,
    FAILED,
    FASTER,
    NOT_APPLICABLE,
    OUT_OF_MEMORY,
    SAME,
    SKIPPED,
    SLOWER,
    SMALLER,
    UNPROVEN,
    Run,
    Trial,
)


def tuned(
    machine: Simulated,
    *,
    budget: float = 2000.0,
    steps_planned: int | None = None,
    shares: dict[str, float] | None = None,
    memory: str = "process",
    **choice: Any,
) -> Found:
    baseline = profile(**(shares or {}))
    kind = msgspec.structs.replace(baseline.memory, kind=memory)
    baseline = msgspec.structs.replace(baseline, memory=kind)
    first = machine.run(Recipe(), limit=60)
    request = Request(choice=Choice(**choice), budget=budget, steps_planned=steps_planned)
    return Tuner(machine, baseline, first, request).tune()


def row(found: Found, name: str) -> Trial:
    return next(trial for trial in found.trials if trial.name == name)


def test_what_helps_is_found_together_and_what_does_not_is_left_out() -> None:
    machine = Simulated({"loader-workers": 2.0, "channels-last": 1.3})
    found = tuned(machine)
    assert found.winner is not None
    assert set(found.winner.recipe) == {"loader-workers", "channels-last"}
    assert found.winner.speedup.low < 2.6 < found.winner.speedup.high
    assert found.winner.speedup.low > 2.4


def test_each_part_of_the_winner_has_its_own_contribution() -> None:
    found = tuned(Simulated({"loader-workers": 2.0, "channels-last": 1.3}))
    assert found.winner is not None
    parts = {part.name: part for part in found.winner.parts}
    assert parts["channels-last"].speedup is not None
    assert parts["channels-last"].speedup.low < 1.3 < parts["channels-last"].speedup.high
    assert "memory_format" in parts["channels-last"].by_hand


def test_nothing_is_called_faster_when_nothing_is() -> None:
    wins = 0
    for seed in range(40):
        found = tuned(Simulated(noise=0.03, seed=seed), only=("channels-last",))
        wins += found.winner is not None
    assert wins <= 2


def test_two_wins_that_cancel_are_not_both_kept() -> None:
    class Cancelling(Simulated):
        def _factor(self, name: str, recipe: Any) -> float:
            both = {"channels-last", "fused-optimizer"} <= set(recipe.changes)
            if both and name == "channels-last":
                return 1 / 1.4  # together they are worth one of them at most
            return {"channels-last": 1.4, "fused-optimizer": 1.4}.get(name, 1.0)

    found = tuned(Cancelling(), only=("channels-last", "fused-optimizer"))
    assert found.winner is not None
    assert len(found.winner.recipe) == 1
    assert found.winner.speedup.low > 1.3


@pytest.mark.parametrize("status", [FAILED, OUT_OF_MEMORY])
def test_a_part_that_breaks_does_not_cost_the_others_their_chance(status: str) -> None:
    machine = Simulated({"loader-workers": 2.0}, trouble={"compile": status})
    found = tuned(machine)
    assert found.winner is not None
    assert set(found.winner.recipe) == {"loader-workers"}
    assert row(found, "compile default").status == status
    assert row(found, "compile default").reason == "compile broke"


def test_a_recipe_that_changes_the_loss_is_refused_however_fast_it_is() -> None:
    machine = Simulated({"channels-last": 3.0, "loader-workers": 1.5}, worse={"channels-last": 1})
    found = tuned(machine)
    assert found.winner is not None
    assert set(found.winner.recipe) == {"loader-workers"}
    assert row(found, "channels-last").status == CHANGED
    assert "higher than the baseline's" in row(found, "channels-last").reason


@pytest.mark.parametrize("goal", ["speed", "memory"])
def test_one_run_with_another_loss_may_be_an_accident(goal: str) -> None:
    class Accident(Simulated):
        def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
            first = recipe.changes and recipe.label() not in self.log
            self.worse = {name: 0.3 for name in recipe.changes if first}
            return super().run(recipe, limit=limit, seed=seed)

    machine = Accident({"channels-last": 2.0}, peaks={"channels-last": 0.5})
    found = tuned(machine, only=("channels-last",), goal=goal)
    assert row(found, "channels-last").status == (FASTER if goal == "speed" else SMALLER)


def test_a_small_change_of_the_loss_that_comes_again_is_refused() -> None:
    machine = Simulated({"channels-last": 2.0}, worse={"channels-last": 0.4})
    found = tuned(machine, only=("channels-last",))
    assert row(found, "channels-last").status == CHANGED
    assert machine.log.count("channels-last") == 2


def test_the_precision_is_suspected_first_when_a_bundle_changes_the_loss() -> None:
    shares = {"compute": 0.7, "input": 0.3}
    machine = Simulated(
        {"precision-bf16": 2.0, "channels-last": 1.4, "loader-workers": 1.5},
        worse={"precision-bf16": 1.0},
    )
    found = tuned(machine, shares=shares)
    assert row(found, "everything promising").status == CHANGED
    assert row(found, "everything but precision").status == FASTER
    assert found.winner is not None
    assert "precision-bf16" not in found.winner.recipe


def test_too_few_steps_to_tell_keep_a_close_one_out() -> None:
    found = tuned(Simulated({"channels-last": 2.0}, steps=8), only=("channels-last",))
    assert row(found, "channels-last").status == UNPROVEN
    assert "too few" in row(found, "channels-last").reason
    assert found.winner is None


def test_the_same_arithmetic_needs_no_steps_to_be_trusted() -> None:
    machine = Simulated({"loader-prefetch": 1.5, "loader-workers": 1.0}, steps=8)
    baseline = profile()
    import msgspec

    loader = msgspec.structs.replace(baseline.loaders[0], workers=2, prefetch_factor=2)
    baseline = msgspec.structs.replace(baseline, loaders=(loader,))
    request = Request(choice=Choice(only=("loader-prefetch",)), budget=2000)
    found = Tuner(machine, baseline, machine.run(Recipe(), limit=9), request).tune()
    assert found.winner is not None
    assert set(found.winner.recipe) == {"loader-prefetch"}


def test_compiling_that_does_not_pay_within_the_planned_steps_is_not_kept() -> None:
    machine = Simulated({"compile": 1.5}, compile_seconds=60.0)
    assert tuned(machine, only=("compile",)).winner is not None
    machine = Simulated({"compile": 1.5}, compile_seconds=60.0)
    found = tuned(machine, only=("compile",), steps_planned=1000)
    assert found.winner is None
    assert "does not pay within 1,000 steps" in row(found, "compile default").reason
    machine = Simulated({"compile": 1.5}, compile_seconds=60.0)
    assert tuned(machine, only=("compile",), steps_planned=1_000_000).winner is not None


def test_the_table_says_after_how_many_steps_compiling_has_paid() -> None:
    found = tuned(Simulated({"compile": 2.0}, compile_seconds=50.0, noise=1e-6), only=("compile",))
    compiled = row(found, "compile default")
    assert compiled.start_seconds == pytest.approx(50.0)
    assert compiled.break_even_steps == pytest.approx(10_000, rel=0.01)


def test_a_hopeless_candidate_gets_one_run_and_a_promising_one_more() -> None:
    machine = Simulated({"channels-last": 0.5}, noise=0.002)
    found = tuned(machine, only=("channels-last",))
    assert row(found, "channels-last").status == SLOWER
    assert machine.log.count("channels-last") == 1
    machine = Simulated({"channels-last": 1.03}, noise=0.005)
    tuned(machine, only=("channels-last",))
    assert machine.log.count("channels-last") > 1


def test_runs_of_a_promising_candidate_alternate_with_what_it_is_compared_with() -> None:
    machine = Simulated({"channels-last": 1.03}, noise=0.02)
    tuned(machine, only=("channels-last",))
    log = machine.log
    first = log.index("channels-last")
    assert "baseline" in log[first + 1 : first + 3]


def test_the_budget_is_kept_and_the_rest_is_marked() -> None:
    machine = Simulated({"loader-workers": 2.0, "channels-last": 1.3})
    found = tuned(machine, budget=100.0)
    assert machine.clock() < 140
    skipped = [trial for trial in found.trials if trial.status == SKIPPED]
    assert any("budget" in trial.reason for trial in skipped)


def test_learning_changing_ones_are_tried_only_when_allowed() -> None:
    found = tuned(Simulated({"batch-size 2 sqrt": 3.0}))
    assert row(found, "batch-size").status == SKIPPED
    assert "--allow batch-size" in row(found, "batch-size").reason
    found = tuned(Simulated({"batch-size 2 sqrt": 3.0}), allow=("batch-size",))
    assert found.winner is not None
    assert found.winner.recipe["batch-size"]["factor"] == 2


def test_every_optimization_has_a_row_and_those_that_do_not_apply_say_why() -> None:
    from hotlap.optimizations import OPTIMIZATIONS

    found = tuned(Simulated())
    named = {name for trial in found.trials for name in (*trial.recipe, trial.name.split()[0])}
    assert {one.NAME for one in OPTIMIZATIONS} <= named
    assert row(found, "tf32").status == NOT_APPLICABLE
    assert row(found, "tf32").reason == "training runs on the CPU"


def test_with_the_goal_memory_the_smallest_peak_wins() -> None:
    machine = Simulated(
        {"gradient-accumulation": 0.9, "channels-last": 2.0}, peaks={"gradient-accumulation": 0.6}
    )
    found = tuned(machine, goal="memory", allow=("gradient-accumulation",))
    assert found.winner is not None
    assert "gradient-accumulation" in found.winner.recipe
    assert row(found, "gradient-accumulation 2").status == SMALLER


def test_what_saves_memory_and_costs_time_is_told_so_and_not_as_noise() -> None:
    machine = Simulated({"channels-last": 0.75}, peaks={"channels-last": 0.6})
    found = tuned(machine, goal="memory", only=("channels-last",))
    assert found.winner is not None
    (part,) = found.winner.parts
    assert part.speedup is not None
    assert part.speedup.high < 1.0
    assert part.note == "slower with it"


def test_nothing_is_called_smaller_when_peaks_only_scatter() -> None:
    """The unchanged command alone varies by a sixth: one lucky run is no saving."""
    wins = 0
    for seed in range(40):
        machine = Simulated(seed=seed, peak_noise=0.15)
        found = tuned(machine, goal="memory", only=("channels-last", "threads"))
        wins += found.winner is not None
    assert wins <= 2


def test_a_saving_is_proven_through_scattered_peaks_by_more_runs() -> None:
    machine = Simulated(peaks={"channels-last": 0.5}, peak_noise=0.05)
    found = tuned(machine, goal="memory", only=("channels-last",))
    assert found.winner is not None
    assert machine.log.count("channels-last") > 1


def test_what_a_device_allocates_repeats_so_one_run_shows_a_saving() -> None:
    machine = Simulated(peaks={"channels-last": 0.97})
    found = tuned(machine, goal="memory", only=("channels-last",), memory="device")
    trial = row(found, "channels-last")
    assert (trial.status, len(trial.runs)) == (SMALLER, 1)
    assert found.winner is not None


def test_a_baseline_that_does_not_agree_with_itself_is_run_again() -> None:
    machine = Simulated(noise=0.2, seed=3)
    tuned(machine, only=("tf32",))
    assert machine.log.count("baseline") >= 3


def test_every_other_baseline_run_has_its_own_random_numbers() -> None:
    seeds: list[int] = []

    class Watching(Simulated):
        def run(self, recipe: Any, *, limit: float, seed: int = 0) -> Any:
            if not recipe:
                seeds.append(seed)
            return super().run(recipe, limit=limit, seed=seed)

    tuned(Watching({"channels-last": 1.5}), only=("channels-last",))
    assert seeds[0] == 0
    assert seeds[1] != 0


def test_no_difference_is_no_difference() -> None:
    found = tuned(Simulated(noise=0.001), only=("channels-last",))
    assert row(found, "channels-last").status == SAME


def test_a_run_that_others_disturbed_is_repeated_and_left_out() -> None:
    class Busy(Simulated):
        def run(self, recipe: Any, *, limit: float, seed: int = 0) -> Any:
            import msgspec

            run = super().run(recipe, limit=limit, seed=seed)
            busy = len(self.log) in (3, 5)
            slow = 3.0 if busy else 1.0
            assert run.sample_seconds is not None
            return msgspec.structs.replace(
                run, other_cores=1.5 if busy else 0.1, sample_seconds=run.sample_seconds * slow
            )

    said: list[str] = []
    machine = Busy({"channels-last": 1.5})
    first = machine.run(Recipe(), limit=9)
    request = Request(choice=Choice(only=("channels-last",)), budget=2000)
    found = Tuner(machine, profile(), first, request, say=said.append).tune()
    assert found.winner is not None
    assert found.winner.speedup.low < 1.5 < found.winner.speedup.high
    assert any(run.disturbed for run in found.winner.runs)
    assert sum("left out" in text for text in said) == 1


def test_a_baseline_that_fails_now_and_then_is_told() -> None:
    class Moody(Simulated):
        def run(self, recipe: Any, *, limit: float, seed: int = 0) -> Any:
            run = super().run(recipe, limit=limit, seed=seed)
            if len(self.log) == 2:
                from hotlap.tunings import Run

                return Run(folder="x", seconds=6.0, status=FAILED, reason="port in use")
            return run

    said: list[str] = []
    machine = Moody({"channels-last": 1.5})
    first = machine.run(Recipe(), limit=9)
    request = Request(choice=Choice(only=("channels-last",)), budget=2000)
    found = Tuner(machine, profile(), first, request, say=said.append).tune()
    assert found.winner is not None
    assert said == ["The command by itself does not always run: failed, port in use."]


def test_the_times_shown_are_in_the_ratio_that_is_shown() -> None:
    found = tuned(Simulated({"channels-last": 1.5}, noise=0.05, seed=5), only=("channels-last",))
    winner = found.winner
    assert winner is not None
    assert winner.baseline_seconds / winner.step_seconds == pytest.approx(winner.speedup.ratio)


def test_the_run_that_fills_a_cache_is_not_compared() -> None:
    machine = Simulated({"sample-cache": 3.0})
    found = tuned(machine, only=("sample-cache",))
    assert found.winner is not None
    assert set(found.winner.recipe) == {"sample-cache"}
    assert found.winner.speedup.low < 3.0 < found.winner.speedup.high
    trial = row(found, "sample-cache 50")
    assert (trial.status, trial.reason) == (FASTER, "from the second epoch on")
    assert [run.filling for run in trial.runs] == [True, *[False] * (len(trial.runs) - 1)]
    assert trial.step_seconds == pytest.approx(0.01 / 3, rel=0.02)


def test_what_the_first_epoch_costs_counts_before_a_cache_has_paid() -> None:
    """500 steps at 11.1 ms; then 6.7 ms are won with every step."""
    machine = Simulated({"sample-cache": 3.0}, noise=0.0)
    trial = row(tuned(machine, only=("sample-cache",)), "sample-cache 50")
    assert trial.break_even_steps == pytest.approx(500 + 500 * (1 / 0.9 - 1) / (2 / 3), abs=2)
    short = tuned(Simulated({"sample-cache": 3.0}), only=("sample-cache",), steps_planned=550)
    assert row(short, "sample-cache 50").status == SAME
    long = tuned(Simulated({"sample-cache": 3.0}), only=("sample-cache",), steps_planned=700)
    assert row(long, "sample-cache 50").status == FASTER


def test_what_is_not_named_with_only_is_not_tried_though_it_is_allowed() -> None:
    found = tuned(Simulated({}), only=("channels-last",), allow=("batch-size",))
    assert row(found, "batch-size").reason == "not named with --only"


def test_the_scripts_own_number_of_workers_is_not_tried_as_a_change() -> None:
    """It had none, and two were kept: none again is what leaving them out is."""

    class Diagnosed(Simulated):
        def profile(self, recipe: Recipe, *, limit: float) -> Any:
            run, found = super().profile(recipe, limit=limit)
            assert found is not None
            workers = recipe.changes.get("loader-workers", {}).get("workers", 0)
            loader = msgspec.structs.replace(found.loaders[0], workers=workers)
            return run, msgspec.structs.replace(found, loaders=(loader,))

    found = tuned(Diagnosed({"loader-workers": 2.0}), only=("loader-workers",))
    assert found.winner is not None
    names = {trial.name for trial in found.trials}
    assert {"loader-workers 4", "loader-workers 2"} <= names
    assert "loader-workers 0" not in names
