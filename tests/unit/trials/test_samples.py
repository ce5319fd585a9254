"""How many samples a step has, and how many go by in a second."""

import pytest
from raws import SPLIT, bare, merged, raw, row, watched, window


def test_a_script_whose_every_step_evaluates_has_its_samples():
    plays = [row(2.0, samples=128, kind="evaluation") for _ in range(20)]
    for rows in (plays, [*plays, row(0.1, samples=1)]):
        step = merged(raw(window("warmup", *rows), window("bare", *rows))).step
        assert (step.median_seconds, step.samples) == (2.0, 128)
        assert step.samples_per_second == pytest.approx(64, rel=0.1)


def test_the_samples_of_steps_that_evaluate_do_not_count_beside_others():
    rows = [row(1.0), row(30.0, samples=512, kind="evaluation")] * 5
    assert merged(raw(window("warmup", *rows), window("bare", *rows))).step.samples == 32


def test_samples_per_second_are_all_samples_over_all_time():
    rows = [row(1.0, samples=32), row(3.0, samples=32), row(1.0, samples=8)]
    step = merged(raw(window("bare", *rows))).step
    assert step.samples == 32
    assert step.samples_per_second == pytest.approx(72 / 5)


def test_samples_of_steps_that_grow_are_held_against_the_time_of_the_same_steps():
    """Episodes of 10 samples, then of 150; only the phases windows look into them."""
    short = [row(0.01, samples=10, phases={"forward": 0.01}) for _ in range(20)]
    long = [row(0.15, samples=150, phases={"forward": 0.15}) for _ in range(5)]
    unseen = [row(0.15, samples=None) for _ in range(60)]
    windows = (
        window("warmup", *[row(0.01, samples=10)] * 3),
        window("phases", *short),
        window("bare", *unseen),
        window("phases", *long),
    )
    step = merged(raw(*windows)).step
    assert step.samples_per_second == pytest.approx(1000)
    assert step.samples == 150


def test_a_short_last_batch_makes_no_steps_of_several_sizes():
    rows = [row(1.0, samples=32) for _ in range(19)] + [row(1.0, samples=8)]
    step = merged(raw(window("bare", *rows), watched(*[SPLIT] * 3))).step
    assert step.samples == 32


def test_unknown_samples_stay_unknown():
    step = merged(raw(window("bare", row(samples=None)))).step
    assert (step.samples, step.samples_per_second) == (None, None)


def test_samples_that_only_the_first_steps_told_stay_unknown():
    unseen = [row(samples=None, phases=SPLIT) for _ in range(4)]
    windows = window("warmup", row(samples=10), row(samples=10)), bare(1.0), watched(*unseen)
    step = merged(raw(*windows)).step
    assert (step.samples, step.samples_per_second) == (None, None)
