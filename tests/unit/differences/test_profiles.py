"""Two profiles set against each other: what is said of them is true of their numbers."""

from __future__ import annotations

import math
import re

import msgspec
import pytest
import sample_tunings as sample
from hypothesis import given
from hypothesis import strategies as some

import hotlap
from hotlap.comparisons import FASTER, GONE, NEW, SAME, SLOWER, STILL
from hotlap.errors import UsageError
from hotlap.records import Finding, Loader, Phase, Profile

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
    for before, after, which in (
        ((BUSY,), (), "the first run"),
        ((), (BUSY,), "the second run"),
        ((BUSY,), (BUSY,), "both runs"),
    ):
        found = hotlap.compare(profile(0.3, findings=before), profile(0.03, findings=after))
        assert found.outcome == ""
        assert found.summary == (
            "300 ms and 30.0 ms a step, but whether that is a difference cannot be told: the "
            f"machine was busy in {which}."
        )
        (note,) = found.notes
        assert note.startswith(
            f"The machine was busy with something else in {which}. Measure again"
        )


def test_a_busy_run_is_not_compared_with_itself():
    one = profile(0.3, findings=(BUSY,))
    found = hotlap.compare(one, one)
    assert found.summary == "Both are the same run: there is nothing to compare."
    assert found.notes == ()
    quiet = profile(0.3)
    assert hotlap.compare(quiet, quiet).notes == ("Both are the same run.",)


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
    assert found.summary.endswith("cannot be told: a step of one may not be that of the other.")
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


@given(
    some.tuples(*2 * [some.floats(1e-5, 10.0)]),
    some.floats(1.0, 8.0),
    some.tuples(*2 * [some.sampled_from([0.97, 1.0, 1.05, 3.0])]),
    some.sampled_from([32.0, 64.0, 128.0]),
    some.integers(1, 2000),
)
def test_the_summary_the_outcome_and_the_interval_never_contradict_each_other(
    times: tuple[float, float],
    scatter: float,
    uneven: tuple[float, float],
    samples: float,
    count: int,
):
    def made(seconds: float, mean: float, samples: float) -> Profile:
        one = profile(seconds, samples=samples)
        step = msgspec.structs.replace(
            one.step, mean_seconds=mean * seconds, high_seconds=scatter * seconds, count=count
        )
        return msgspec.structs.replace(one, step=step)

    found = hotlap.compare(made(times[0], uneven[0], 64.0), made(times[1], uneven[1], samples))
    first = found.figures[0]
    assert first.ratio is not None
    assert first.ratio.low <= first.ratio.ratio <= first.ratio.high
    assert first.ratio.ratio == pytest.approx((first.after or 0) / (first.before or 1))
    opening = {SLOWER: "Slower, ", SAME: "No difference", FASTER: f"{1 / first.ratio.ratio:.2f} "}
    assert found.summary.startswith(opening[found.outcome])
    expected = SLOWER if first.ratio.low > 1 else FASTER if first.ratio.high < 1 else SAME
    assert found.outcome == first.outcome == expected
