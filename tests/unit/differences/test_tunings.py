"""Two tunings set against each other: the command as it is, and with what they found."""

from __future__ import annotations

import msgspec
import pytest
import sample_tunings as sample

import hotlap
from hotlap import comparisons
from hotlap.comparisons import FASTER, SAME, SLOWER
from hotlap.tunings import Run, Tuning


def tuning(
    seconds: float, best: float | None = None, *, losses: int = 1, **changes: object
) -> Tuning:
    """Three runs as it is and three of the winner; two of them hardly differ."""

    def runs(each: float) -> tuple[object, ...]:
        scatter = (0.998, 1.0, 1.002)
        return tuple(
            sample.run(
                losses + number,
                step_seconds=each * times,
                sample_seconds=each * times / 64,
                losses=sample.losses(losses),
                peak_bytes=1 << 30,
            )
            for number, times in enumerate(scatter)
        )

    made = sample.tuning()
    assert made.winner is not None
    winner = (
        msgspec.structs.replace(made.winner, runs=runs(best), step_seconds=best)
        if best is not None
        else None
    )
    made = msgspec.structs.replace(made, baseline_runs=runs(seconds), winner=winner, trials=())
    return msgspec.structs.replace(made, **changes)


def test_tunings_are_told_as_they_are_and_with_what_they_found():
    found = hotlap.compare(tuning(0.04, 0.02), tuning(0.04, 0.01))
    assert found.outcome == FASTER
    assert "As it is: no difference beyond the noise" in found.summary
    assert "With what they found: 2.00 times as fast" in found.summary
    as_is, tuned = found.figure("as it is", "step"), found.figure("with its recipe", "step")
    assert as_is is not None
    assert tuned is not None
    assert (as_is.outcome, tuned.outcome) == (SAME, FASTER)


def test_a_tuning_that_found_nothing_is_held_against_the_other_as_it_is():
    found = hotlap.compare(tuning(0.04), tuning(0.04, 0.02))
    assert "Only the second found a recipe that pays." in found.summary
    assert "With what they found: 2.00 times as fast" in found.summary
    neither = hotlap.compare(tuning(0.04), tuning(0.04))
    assert "Neither found a recipe that pays." in neither.summary
    assert "With what they found" not in neither.summary


def test_a_recipe_with_a_larger_batch_is_told_by_the_sample():
    after = tuning(0.04, 0.02)
    assert after.winner is not None
    runs = tuple(
        msgspec.structs.replace(run, step_seconds=4 * (run.step_seconds or 0))
        for run in after.winner.runs
    )
    after = msgspec.structs.replace(after, winner=msgspec.structs.replace(after.winner, runs=runs))
    found = hotlap.compare(tuning(0.04, 0.04), after)
    assert found.outcome == FASTER
    assert "With what they found: 2.00 times as fast" in found.summary
    assert "1,600 samples/s become 3,200 samples/s" in found.summary
    step = found.figure("with its recipe, a step")
    assert step is not None
    assert step.outcome == ""


def test_tunings_of_which_one_counts_no_samples_are_told_by_the_step():
    after = tuning(0.02)
    runs = tuple(msgspec.structs.replace(run, sample_seconds=None) for run in after.baseline_runs)
    after = msgspec.structs.replace(after, baseline_runs=runs)
    found = hotlap.compare(tuning(0.04), after)
    assert "As it is: 2.00 times as fast" in found.summary
    assert "40.0 ms a step become 20.0 ms" in found.summary


def test_a_recipe_without_runs_is_not_taken_for_the_command_as_it_is():
    before = tuning(0.04, 0.02)
    assert before.winner is not None
    before = msgspec.structs.replace(before, winner=msgspec.structs.replace(before.winner, runs=()))
    found = hotlap.compare(before, tuning(0.04, 0.02))
    assert found.outcome == ""
    assert "With what they found: the steps of the two cannot be compared: –" in found.summary


def test_tunings_for_memory_tell_of_it():
    before, after = tuning(0.04, 0.02, goal="memory"), tuning(0.04, 0.02, goal="memory")
    assert "The memory at the peak is" in hotlap.compare(before, after).summary
    assert "The memory at the peak" not in hotlap.compare(tuning(0.04), tuning(0.04)).summary


def test_tunings_on_a_processor_and_on_a_device_have_no_memory_in_common():
    before, after = tuning(0.04, 0.02, goal="memory"), tuning(0.04, 0.02, goal="memory")
    kind = "process" if after.baseline.memory.kind == "device" else "device"
    memory = msgspec.structs.replace(after.baseline.memory, kind=kind)
    other = msgspec.structs.replace(
        after, baseline=msgspec.structs.replace(after.baseline, memory=memory)
    )
    assert hotlap.compare(before, after).figure("as it is", "memory") is not None
    found = hotlap.compare(before, other)
    assert not [one for one in found.figures if one.group == "memory"]
    assert "memory at the peak" not in found.summary


def test_the_phases_of_tunings_add_up_to_the_step_as_it_is():
    uneven = tuning(0.04)
    step = msgspec.structs.replace(
        uneven.baseline.step, mean_seconds=3 * uneven.baseline.step.median_seconds
    )
    uneven = msgspec.structs.replace(
        uneven, baseline=msgspec.structs.replace(uneven.baseline, step=step)
    )
    found = hotlap.compare(uneven, tuning(0.02))
    phases = [one for one in found.figures if one.group == "phases"]
    assert sum(one.before or 0.0 for one in phases) == pytest.approx(0.04, rel=0.01)
    assert sum(one.after or 0.0 for one in phases) == pytest.approx(0.02, rel=0.01)


def test_the_recipes_are_held_against_each_other():
    ours, theirs = tuning(0.04, 0.02), tuning(0.04, 0.02)
    assert theirs.winner is not None
    recipe = {"loader-workers": {"workers": 4}, "threads": {"threads": 1}}
    theirs = msgspec.structs.replace(
        theirs, winner=msgspec.structs.replace(theirs.winner, recipe=recipe)
    )
    found = {one.name: (one.before, one.after) for one in hotlap.compare(ours, theirs).changes}
    assert found["recipe: loader-workers"] == ("workers 8", "workers 4")
    assert found["recipe: compile"] == ("mode default", "–")
    assert found["recipe: threads"] == ("–", "threads 1")


def test_a_command_that_learns_something_else_by_now_is_told():
    same = hotlap.compare(tuning(0.04), tuning(0.04))
    assert same.guard is not None
    assert same.guard.status == "passed"
    runs = tuple(
        msgspec.structs.replace(run, losses=tuple(loss + 1 for loss in sample.losses(1)))
        for run in tuning(0.04).baseline_runs
    )
    other = hotlap.compare(tuning(0.04), tuning(0.04, baseline_runs=runs))
    assert other.guard is not None
    assert other.guard.status == "changed"


def crowded(made: Tuning, others: float) -> Tuning:
    """The same with others that burned so many of two cores during every run."""

    def loud(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(msgspec.structs.replace(run, other_cores=others) for run in runs)

    environment = {**made.baseline.environment, "cores": 2.0}
    winner = made.winner and msgspec.structs.replace(made.winner, runs=loud(made.winner.runs))
    return msgspec.structs.replace(
        made,
        baseline=msgspec.structs.replace(made.baseline, environment=environment),
        baseline_runs=loud(made.baseline_runs),
        winner=winner,
    )


def test_tunings_on_a_busy_machine_are_shown_and_not_judged():
    before, after = crowded(tuning(0.04, 0.02), 1.9), crowded(tuning(0.2, 0.1), 1.9)
    found = hotlap.compare(before, after)
    assert found.outcome == ""
    assert {one.outcome for one in found.figures} == {""}
    assert found.summary.startswith(
        "As it is: 40.0 ms and 200 ms a step, but whether that is a difference cannot be told: the "
        "machine was busy in both runs. With what they found: 20.0 ms and 100 ms a step, but"
    )
    assert any("busy with something else in both runs" in note for note in found.notes)
    quiet = hotlap.compare(crowded(tuning(0.04, 0.02), 0.1), crowded(tuning(0.2, 0.1), 0.1))
    assert quiet.outcome == SLOWER
    assert not any("busy" in note for note in quiet.notes)


def test_a_comparison_survives_its_json():
    found = hotlap.compare(tuning(0.04, 0.02), tuning(0.04, 0.01))
    assert comparisons.decode(comparisons.encode(found)) == found
