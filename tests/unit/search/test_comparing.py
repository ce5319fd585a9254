"""Intervals: they cover what they should, and widen where little is known."""

from __future__ import annotations

import math
import random

import pytest

from hotlap import stats
from hotlap.search import comparing
from hotlap.tunings import Run


def run(seconds: float, **more: object) -> Run:
    return Run(folder="x", step_seconds=seconds, sample_seconds=seconds / 8, **more)  # type: ignore[arg-type]


def noisy(chance: random.Random, middle: float, noise: float, count: int) -> list[Run]:
    return [run(middle * math.exp(chance.gauss(0, noise))) for _ in range(count)]


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_intervals_cover_the_truth(noise: float) -> None:
    chance, covered, times = random.Random(4), 0, 400
    for _ in range(times):
        slow, fast = noisy(chance, 0.03, noise, 3), noisy(chance, 0.02, noise, 3)
        found = comparing.speedup(slow, fast, comparing.spread([slow, fast]))
        assert found is not None
        covered += found.low <= 1.5 <= found.high
    assert covered >= 0.93 * times


def test_a_noisy_machine_widens_every_interval() -> None:
    quiet = comparing.spread([[run(1.0), run(1.001), run(0.999)]])
    loud = comparing.spread([[run(1.0), run(1.3), run(0.8)]])
    assert loud.deviation > 5 * quiet.deviation


def test_few_runs_make_wide_intervals() -> None:
    one = comparing.speedup([run(2.0)], [run(1.0)], comparing.spread([[run(2.0)], [run(1.0)]]))
    many = [run(2.0)] * 8, [run(1.0)] * 8
    eight = comparing.speedup(*many, comparing.spread(many))
    assert one is not None
    assert eight is not None
    assert one.ratio == eight.ratio == pytest.approx(2.0)
    assert one.high - one.low > 3 * (eight.high - eight.low)


def test_windows_that_differ_within_a_run_count_as_noise() -> None:
    uneven = run(1.0, windows=(0.5, 1.0, 1.5))
    assert comparing.spread([[uneven]]).deviation > 0.2


def test_accepting_is_stricter_than_showing() -> None:
    slow, fast = [run(1.075)], [run(1.0)]
    noise = comparing.spread([slow, fast])
    shown = comparing.speedup(slow, fast, noise)
    assert shown is not None
    half = math.log(shown.ratio / shown.low)
    slow = [run(math.exp(half * 1.1))]  # just beyond the interval that is shown
    assert not comparing.proven(slow, fast, noise)
    assert comparing.proven([run(math.exp(half * 3))], fast, noise)


@pytest.mark.parametrize(
    ("gain", "noise", "worth"),
    [(1.02, 0.05, False), (1.02, 0.002, True), (1.3, 0.05, True), (1.1, 0.002, True)],
)
def test_more_runs_are_for_what_they_could_prove(gain: float, noise: float, worth: bool) -> None:
    spread = comparing.Spread(deviation=noise, degrees=6.0)
    slow, fast = [run(1.0), run(1.0)], [run(1.0 / gain)]
    assert comparing.may_be_proven(slow, fast, spread, most=4) is worth


def test_a_surprise_counts_less_where_little_was_promised() -> None:
    spread = comparing.Spread(deviation=0.03, degrees=6.0)
    slow, fast = [run(1.0), run(1.0)], [run(1.0 / 1.05)]
    assert comparing.may_be_proven(slow, fast, spread, most=4)
    assert comparing.may_be_proven(slow, fast, spread, most=4, promise=0.3)
    assert not comparing.may_be_proven(slow, fast, spread, most=4, promise=0.005)
    assert comparing.may_be_proven(slow, [run(0.5)], spread, most=4, promise=0.005)


def test_what_is_proven_with_all_its_runs_may_be_proven() -> None:
    chance = random.Random(4)
    for _ in range(200):
        gain = math.exp(chance.uniform(0.0, 0.2))
        slow, fast = noisy(chance, 1.0, 0.03, 4), noisy(chance, 1.0 / gain, 0.03, 4)
        spread = comparing.spread([slow, fast])
        if comparing.proven(slow, fast, spread):
            assert comparing.may_be_proven(slow, fast, spread, most=4)


def test_samples_are_compared_where_they_are_known_and_steps_otherwise() -> None:
    assert comparing.cost(run(0.8)) == pytest.approx(0.1)
    assert comparing.cost(Run(folder="x", step_seconds=0.8)) == 0.8
    assert comparing.cost(Run(folder="x", status="failed")) is None


def test_disturbed_runs_count_only_where_there_are_no_others() -> None:
    busy = run(3.0, disturbed=True)
    assert comparing.costs([run(0.8), busy]) == [pytest.approx(0.1)]
    assert comparing.costs([busy]) == [pytest.approx(3.0 / 8)]


def test_a_disturbed_run_is_not_held_against_quiet_ones_alone() -> None:
    """The load began after the first run: 92 ms became 217 to 341, and the candidate had 435."""
    baseline = [run(0.092), *[run(one, disturbed=True) for one in (0.217, 0.251, 0.341)]]
    candidate = [run(0.435, disturbed=True)]
    noise = comparing.spread_between([baseline, candidate], baseline, candidate)
    found = comparing.speedup(baseline, candidate, noise)
    assert found is not None
    assert found.low < 1.0 < found.high


@pytest.mark.parametrize("ratio", [0.6, 1.6])
def test_one_disturbed_run_against_quiet_ones_says_little(ratio: float) -> None:
    slow, fast = [run(1.0), run(1.01), run(0.99)], [run(1.0 / ratio, disturbed=True)]
    for pair in ((slow, fast), (fast, slow)):
        noise = comparing.spread_between([slow, fast], *pair)
        found = comparing.speedup(*pair, noise)
        assert found is not None
        assert found.low < 1.0 < found.high
        assert not comparing.proven(*pair, noise)


def test_quiet_runs_are_compared_as_if_the_disturbed_ones_were_not_there() -> None:
    slow, fast = [run(1.0), run(1.01)], [run(0.5), run(0.51)]
    plain = comparing.speedup(slow, fast, comparing.spread_between([slow, fast], slow, fast))
    busy = [*fast, run(3.0, disturbed=True)]
    assert (
        comparing.speedup(slow, busy, comparing.spread_between([slow, busy], slow, busy)) == plain
    )


def test_runs_under_the_same_load_can_still_prove_much() -> None:
    slow = [run(one, disturbed=True) for one in (1.0, 1.02, 0.98, 1.0)]
    fast = [run(one / 2, disturbed=True) for one in (1.0, 1.02, 0.98, 1.0)]
    assert comparing.proven(slow, fast, comparing.spread_between([slow, fast], slow, fast))


def test_nothing_timed_is_no_speedup() -> None:
    failed = Run(folder="x", status="failed")
    assert comparing.speedup([failed], [run(1.0)], comparing.spread([[run(1.0)]])) is None


@pytest.mark.parametrize(
    ("degrees", "q", "value"),
    [
        (1, 0.975, 12.706),
        (2, 0.975, 4.303),
        (2, 0.993, 8.362),
        (3, 0.975, 3.182),
        (5, 0.975, 2.571),
        (10, 0.975, 2.228),
        (30, 0.995, 2.750),
    ],
)
def test_student_quantiles_are_right_to_one_percent(degrees: int, q: float, value: float) -> None:
    assert stats.student(degrees, q) == pytest.approx(value, rel=0.01)
