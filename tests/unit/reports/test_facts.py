"""What stands at the top of a page adds up."""

import sample_tunings as sample

from hotlap.reports import facts, rows
from hotlap.tunings import Noise, Speedup, Trial


def start_up(**winner):
    told = facts.of_tuning(sample.tuning(winner=sample.winner(**winner)))
    return next(fact for fact in told if fact.name == "start-up").note


def test_the_time_until_a_start_has_paid_holds_that_start():
    note = start_up(start_seconds=16.3, break_even_steps=72, step_seconds=0.0656)
    assert note == "pays after 72 steps, 21.0 s in all"


def test_a_start_that_never_pays_is_not_said_to():
    assert start_up(start_seconds=16.3, break_even_steps=None) == ""
    assert start_up(start_seconds=0.2, break_even_steps=3) == ""


def test_the_noise_is_told_as_what_a_ratio_cannot_prove():
    said = facts.noise(Noise(runs=5, spread=0.23, low=0.36, high=2.77))
    assert said == (
        "Runs of the same thing differ by 23 % here: a ratio of two single runs proves nothing "
        "between 0.36 and 2.77."
    )


def test_a_row_without_a_figure_does_not_say_when_it_pays():
    vague = Trial(
        name="compile default",
        recipe={"compile": {}},
        status="unproven",
        speedup=Speedup(ratio=1.9, low=0.1, high=19.0),
        step_seconds=0.1,
        start_seconds=16.0,
        break_even_steps=17,
    )
    assert vague.speedup.is_vague
    (row,) = rows.of(sample.tuning(trials=(vague,)))
    assert row.break_even == ""


def test_what_was_left_out_for_one_reason_is_one_row_and_what_failed_is_not():
    def trial(name, status, reason):
        return Trial(name=name, recipe={}, status=status, reason=reason)

    made = [
        trial("tf32", "not applicable", "training runs on the CPU"),
        trial("compile default", "failed", "no compiler"),
        trial("pinned-memory", "not applicable", "training runs on the CPU"),
        trial("compile max-autotune", "failed", "no compiler"),
        trial("allocator", "not applicable", "jemalloc is not installed"),
    ]
    assert [row.name for row in rows.of(sample.tuning(trials=tuple(made)))] == [
        "compile default",
        "compile max-autotune",
        "tf32, pinned-memory",
        "allocator",
    ]
