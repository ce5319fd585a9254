"""Two results set against each other: what is said of them is true of their numbers."""

from __future__ import annotations

import math
import re

import msgspec
import pytest
import sample_tunings as sample
from answered import answer
from hypothesis import given
from hypothesis import strategies as some

import hotlap
from hotlap import comparisons
from hotlap.answers import Row
from hotlap.comparisons import FASTER, GONE, HIGHER, NEW, SAME, SLOWER, STILL
from hotlap.differences import contrasts
from hotlap.errors import UsageError
from hotlap.records import Finding, Loader, Phase, Profile
from hotlap.tunings import Tuning

BUSY = Finding(rule="busy-machine", summary="busy", evidence="", advice="")


def profile(seconds: float = 0.04, *, samples: float = 64.0, **changes: object) -> Profile:
    """Its steps are even: mean and median agree, and hardly scatter."""
    real = sample.profile()
    step = msgspec.structs.replace(
        real.step,
        median_seconds=seconds,
        mean_seconds=seconds,
        low_seconds=0.99 * seconds,
        high_seconds=1.01 * seconds,
        samples=samples,
        samples_per_second=samples / seconds,
        count=100,
        settled=True,
    )
    phases = sample.phases({"input": 500 * seconds, "forward": 500 * seconds})
    made = msgspec.structs.replace(real, step=step, phases=phases, findings=(), loaders=())
    return msgspec.structs.replace(made, **changes)


def loader(**changes: object) -> Loader:
    made = Loader(
        dataset="Shapes",
        sampler=None,
        iterable=False,
        batches=64,
        batch_size=64,
        workers=0,
        prefetch_factor=None,
        pin_memory=False,
        persistent_workers=False,
        context=None,
        trained=10,
        file=None,
        line=None,
    )
    return msgspec.structs.replace(made, **changes)


# Profiles ------------------------------------------------------------------------------------


def test_a_step_that_takes_half_the_time_is_twice_as_fast_and_the_phase_is_named():
    before = profile(0.04, phases=sample.phases({"input": 30, "forward": 10}))
    after = profile(0.02, phases=sample.phases({"input": 10, "forward": 10}))
    found = hotlap.compare(before, after)
    assert found.outcome == FASTER
    assert "2.00 times as fast" in found.summary
    assert "40.0 ms a step become 20.0 ms" in found.summary
    assert "Most of that is input (30.0 ms become 10.0 ms)." in found.summary
    step = found.figure("step")
    assert step is not None
    assert step.ratio is not None
    assert step.ratio.ratio == pytest.approx(0.5)
    assert step.ratio.low < 0.5 < step.ratio.high < 1


def test_a_step_that_takes_longer_is_slower_and_told_so():
    found = hotlap.compare(profile(0.02), profile(0.03))
    assert found.outcome == SLOWER
    assert found.summary.startswith("Slower, 1.50 times as long")
    assert found.summary.count("become") >= 1


def test_where_no_phase_has_most_of_it_two_are_named():
    before = profile(0.04, phases=sample.phases({"input": 20, "forward": 10, "backward": 10}))
    after = profile(0.02, phases=sample.phases({"input": 11, "forward": 4, "backward": 5}))
    said = hotlap.compare(before, after).summary
    assert "Most of that is input (20.0 ms become 11.0 ms) and forward (10.0 ms become" in said


def test_single_runs_that_differ_by_five_per_cent_show_nothing_and_what_they_could_show():
    found = hotlap.compare(profile(0.040), profile(0.038))
    assert found.outcome == SAME
    assert "No difference beyond the noise" in found.summary
    assert "Most of that" not in found.summary
    least = re.search(r"show a difference of ([\d.]+) % or more", " ".join(found.notes))
    assert least is not None
    assert float(least[1]) > 5
    assert hotlap.compare(profile(0.040), profile(0.040 / (1 + float(least[1]) / 90))).outcome == (
        FASTER
    )


def test_steps_that_scatter_widen_the_interval():
    wild = profile(0.02)
    wild = msgspec.structs.replace(
        wild,
        step=msgspec.structs.replace(wild.step, low_seconds=0.005, high_seconds=0.035, count=9),
    )
    calm, loose = (hotlap.compare(profile(0.024), one) for one in (profile(0.02), wild))
    assert (calm.outcome, loose.outcome) == (FASTER, SAME)


def test_a_mean_that_a_few_long_steps_make_is_known_so_much_the_less():
    def uneven(mean: float) -> Profile:
        one = profile(0.1)
        return msgspec.structs.replace(
            one, step=msgspec.structs.replace(one.step, mean_seconds=mean)
        )

    few = hotlap.compare(uneven(0.3), uneven(0.2))  # 100 steps: some are ten times as long
    assert few.outcome == SAME
    assert "300 ms and 200 ms a step on average" in few.summary
    assert hotlap.compare(profile(0.3), profile(0.2)).outcome == FASTER
    assert hotlap.compare(uneven(30.0), uneven(0.2)).outcome == FASTER


def test_a_busy_machine_is_not_judged_whichever_of_the_two_it_was():
    for before, after in (((BUSY,), ()), ((), (BUSY,))):
        found = hotlap.compare(profile(0.3, findings=before), profile(0.03, findings=after))
        assert found.outcome == ""
        assert "cannot be compared: 300 ms and 30.0 ms" in found.summary
        assert "busy with something else" in " ".join(found.notes)


def test_another_batch_size_is_judged_by_the_sample():
    found = hotlap.compare(profile(0.04, samples=64), profile(0.05, samples=128))
    assert found.outcome == FASTER
    assert "1.60 times as fast" in found.summary
    assert "1,600 samples/s become 2,560 samples/s" in found.summary
    step, sample_ = found.figure("step"), found.figure("a sample")
    assert step is not None
    assert step.outcome == ""
    assert sample_ is not None
    assert sample_.before == pytest.approx(0.04 / 64)
    assert "A step has 128 samples now, 64 before" in " ".join(found.notes)


def test_steps_counted_in_other_ways_are_not_compared():
    before, after = profile(0.04), profile(0.02)
    none = msgspec.structs.replace(
        before.step, samples=None, samples_per_second=None, unit="backward"
    )
    found = hotlap.compare(msgspec.structs.replace(before, step=none), after)
    assert found.outcome == ""
    assert "The first has its steps counted at the backward pass" in " ".join(found.notes)


@pytest.mark.parametrize("field", ["median_seconds", "mean_seconds", "samples"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_step_that_cannot_have_been_measured_is_refused(field: str, value: float):
    odd = profile()
    odd = msgspec.structs.replace(odd, step=msgspec.structs.replace(odd.step, **{field: value}))
    with pytest.raises(UsageError, match="cannot have been measured"):
        hotlap.compare(profile(), odd)


def test_what_was_not_measured_is_null_and_never_a_change():
    phases = sample.phases({"input": 10, "forward": 10})
    without = {**phases, "input": Phase(seconds=None, share=None)}
    found = hotlap.compare(profile(0.02, phases=phases), profile(0.01, phases=without))
    figure = found.figure("input")
    assert figure is not None
    assert figure.before is not None
    assert (figure.after, figure.ratio) == (None, None)
    assert found.figure("transfer") is None


def test_what_is_set_in_another_way_is_listed_and_nothing_else():
    one = profile(loaders=(loader(), loader(dataset="Test", trained=0)))
    other = profile(
        loaders=(loader(workers=2, pin_memory=True),),
        environment={**one.environment, "torch": "2.99"},
        command=("train.py", "--fast"),
    )
    found = {
        change.name: (change.before, change.after) for change in hotlap.compare(one, other).changes
    }
    assert found == {
        "command": (hotlap.compare(one, one).before.command, "train.py --fast"),
        "torch": (one.environment["torch"], "2.99"),
        "loader of Shapes: workers": ("0", "2"),
        "loader of Shapes: pin memory": ("no", "yes"),
    }
    assert hotlap.compare(one, one).changes == ()


def test_loaders_are_compared_by_their_data_set_whatever_their_order():
    one, other = loader(dataset="A"), loader(dataset="B", workers=4)
    assert hotlap.compare(profile(loaders=(one, other)), profile(loaders=(other, one))).changes == (
        ()
    )
    added = hotlap.compare(profile(loaders=(one,)), profile(loaders=(other, one))).changes
    assert [(change.name, change.before, change.after) for change in added] == [
        ("training loaders", "1", "2")
    ]


def test_findings_are_new_gone_or_still_there():
    def finding(rule: str) -> Finding:
        return Finding(rule=rule, summary=rule, evidence="", advice="")

    before = profile(findings=(finding("slow-input"), finding("idle-wrapper")))
    after = profile(findings=(finding("idle-wrapper"), finding("slow-copies")))
    found = {one.rule: one.status for one in hotlap.compare(before, after).findings}
    assert found == {"slow-copies": NEW, "slow-input": GONE, "idle-wrapper": STILL}


def test_bytes_of_a_process_are_not_held_against_bytes_of_a_device():
    one = profile()
    memory = msgspec.structs.replace(
        one.memory, kind="device" if one.memory.kind == "process" else "process"
    )
    assert hotlap.compare(one, one).figure("at the peak") is not None
    assert hotlap.compare(one, profile(memory=memory)).figure("at the peak") is None


@given(some.floats(1e-5, 10.0), some.floats(1e-5, 10.0))
def test_exchanging_the_two_turns_the_outcome_around(ours: float, theirs: float):
    there = hotlap.compare(profile(ours), profile(theirs))
    back = hotlap.compare(profile(theirs), profile(ours))
    turned = {FASTER: SLOWER, SLOWER: FASTER, SAME: SAME}
    assert back.outcome == turned[there.outcome]
    figures = there.figure("step"), back.figure("step")
    assert figures[0] is not None
    assert figures[1] is not None
    assert figures[0].ratio is not None
    assert figures[1].ratio is not None
    assert figures[0].ratio.ratio * figures[1].ratio.ratio == pytest.approx(1)


# Tunings -------------------------------------------------------------------------------------


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


# Studies -------------------------------------------------------------------------------------


def studied(**rates: tuple[float, float, float]):
    """Rows of a rate with the ends of its interval."""
    rows = tuple(
        Row(
            name=name.replace("_", " "),
            values={"rate": value},
            intervals={"rate": (low, high)},
            best=value == max(one[0] for one in rates.values()),
            runs=2,
        )
        for name, (value, low, high) in rates.items()
    )
    made = answer()
    column = msgspec.structs.replace(
        made.columns[0], name="rate", title="samples/s", unit="rate", interval=True
    )
    return msgspec.structs.replace(made, rows=rows, columns=(column,))


def test_rows_of_a_study_differ_where_their_intervals_say_so():
    before = studied(a=(100, 95, 105), b=(200, 190, 210), c=(50, 20, 80))
    after = studied(a=(150, 140, 160), b=(201, 191, 211), c=(60, 30, 90))
    found = hotlap.compare(before, after)
    outcomes = {one.name: one.outcome for one in found.figures}
    assert outcomes == {"a": FASTER, "b": SAME, "c": SAME}
    assert "1 of 3 rows differs in samples/s: 'a' is faster (150, was 100)." in found.summary
    assert "The best row is 'b', as before." in found.summary
    assert found.outcome == comparisons.DIFFERENT


def test_a_study_is_told_by_its_times_and_not_by_gains_over_a_row_that_moved():
    made = studied(a=(100, 95, 105), b=(200, 190, 210))
    gain = msgspec.structs.replace(made.columns[0], name="gain", title="gain", unit="ratio")
    rate = msgspec.structs.replace(made.columns[0], interval=False)

    def against_a(**rates: tuple[float, float, float]):
        first = rates["a"][0]
        one = studied(**rates)
        rows = tuple(
            msgspec.structs.replace(
                row,
                values={**row.values, "gain": row.values["rate"] / first},
                intervals={
                    **row.intervals,
                    "gain": tuple(end / first for end in row.intervals["rate"]),
                },
            )
            for row in one.rows
        )
        return msgspec.structs.replace(one, rows=rows, columns=(gain, rate))

    before = against_a(a=(100, 95, 105), b=(200, 190, 210))
    found = hotlap.compare(before, against_a(a=(200, 190, 210), b=(300, 290, 310)))
    assert (found.column, found.outcome) == ("samples/s", FASTER)


def test_a_study_in_which_nothing_differs_says_so_and_names_what_only_one_has():
    before = studied(a=(100, 95, 105), b=(200, 190, 210))
    after = studied(a=(101, 95, 105), c=(300, 290, 310))
    found = hotlap.compare(before, after)
    assert "No difference beyond the noise in the one row that both have" in found.summary
    assert "it was 'b'" in found.summary
    assert found.outcome == SAME
    assert "Only the first has 'b'." in found.notes
    assert "Only the second has 'c'." in found.notes


def test_a_value_that_is_no_number_is_not_judged():
    before = studied(a=(100, 95, 105), b=(200, 190, 210))
    found = hotlap.compare(before, studied(a=(math.nan, 95, 105), b=(200, math.inf, 210)))
    assert [(one.outcome, one.ratio) for one in found.figures] == [("", None), ("", None)]
    assert found.outcome == ""
    assert "nothing can be told apart from noise" in found.summary


def test_a_row_that_failed_has_no_figure_and_is_told():
    before = studied(a=(100, 95, 105), b=(200, 190, 210))
    rows = (before.rows[0], Row(name="b", status="out of memory", reason="too large"))
    found = hotlap.compare(before, msgspec.structs.replace(before, rows=rows))
    assert [one.name for one in found.figures] == ["a"]
    assert "'b' was measured before and is out of memory now." in found.notes


# Any -----------------------------------------------------------------------------------------


def test_only_two_of_one_kind_are_compared():
    with pytest.raises(UsageError, match=r"is a profile.* is a tuning.*Name two of one kind"):
        hotlap.compare(profile(), tuning(0.04))
    other = msgspec.structs.replace(answer(), study="another")
    with pytest.raises(UsageError, match=r"is a study .* is a study another"):
        hotlap.compare(answer(), other)


def test_a_comparison_survives_its_json():
    found = hotlap.compare(tuning(0.04, 0.02), tuning(0.04, 0.01))
    assert comparisons.decode(comparisons.encode(found)) == found


@given(
    some.floats(1e-3, 1e3),
    some.floats(1e-3, 1e3),
    some.floats(0.0, 0.5),
    some.floats(0.0, 0.5),
)
def test_an_interval_of_a_ratio_is_never_narrower_than_either_of_the_two(a, b, wide, narrow):
    ends = tuple(
        (one * math.exp(-half), one * math.exp(half)) for one, half in ((a, wide), (b, narrow))
    )
    found = contrasts.between("x", "y", "rate", (a, b), (ends[0], ends[1]))
    assert found.ratio is not None
    half = math.log(found.ratio.high / found.ratio.low) / 2
    assert half >= max(wide, narrow) - 1e-9
    assert half <= wide + narrow + 1e-9


def test_values_that_may_be_nothing_are_told_apart_by_their_difference():
    far = contrasts.between("x", "y", "accuracy", (0.0, 0.9), ((0.0, 0.1), (0.8, 1.0)))
    near = contrasts.between("x", "y", "accuracy", (0.0, 0.1), ((0.0, 0.3), (0.0, 0.3)))
    assert (far.outcome, far.ratio) == (HIGHER, None)
    assert near.outcome == SAME
