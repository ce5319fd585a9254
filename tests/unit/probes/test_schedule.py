from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.probes.schedule import BARE, DONE, KERNELS, MEMORY, PATIENCE, PHASES, WARMUP, Schedule
from hotlap.search import guarding


class Run:
    """Feeds a schedule from a clock that only steps move."""

    def __init__(self, **limits):
        plain = {"steps": 2000, "seconds": 30.0, "tolerance": 0.05, "window_seconds": 0.5}
        self.schedule = Schedule(**{**plain, **limits})
        self.now = 1000.0
        self.stages = []  # of every step
        self.windows = []  # (stage, counted steps) of every window that ended
        self.spared = False
        self._counted = 0
        self._by_device = []

    def step(self, seconds, *, counts=True, by_device=None):
        stage = self.schedule.stage
        self.stages.append(stage)
        self.spared |= self.schedule.spares_steps
        self.now += seconds
        self._counted += counts
        ended = self.schedule.advance(seconds, now=self.now, counts=counts)
        self._by_device += [by_device] if by_device else []
        if ended:
            self.schedule.turn(self.now, self._by_device)
            self._by_device = []
            self.windows.append((stage, self._counted))
            self._counted = 0
        return ended

    def until_done(self, seconds=lambda index: 0.01, counts=lambda index: True, most=100_000):
        for index in range(most):
            if self.schedule.stage == DONE:
                return self
            self.step(seconds(index), counts=counts(index))
        raise AssertionError(f"not done after {most} steps: {self.windows}")

    def sizes(self, stage):
        return [size for name, size in self.windows if name == stage]

    def order(self):
        return [stage for stage, _ in groupby(self.stages)]


def test_bare_and_phases_windows_take_turns_until_memory():
    order = Run().until_done().order()
    assert order[0] == WARMUP
    measuring = order[1 : order.index(MEMORY)]
    assert len(measuring) >= 4
    assert measuring == [BARE, PHASES] * (len(measuring) // 2) + [BARE] * (len(measuring) % 2)


def test_a_host_that_runs_ahead_of_its_device_tells_nothing_of_its_steps():
    """Until so many operations wait that it has to wait for them as well."""
    run, ahead = Run(seconds=4.0), 0
    while run.schedule.stage != DONE:
        ahead += 1
        if run.step(0.001 if ahead < 60 else 0.017, by_device=0.017):
            ahead = 0
    assert run.schedule.settled
    assert run.sizes(BARE) == [5, 10, 20, 29]
    assert run.schedule.step_seconds == pytest.approx(0.017)


def test_every_run_ends_with_memory_then_kernels_then_done():
    run = Run().until_done()
    assert run.order()[-2:] == [MEMORY, KERNELS]
    assert run.schedule.stage == DONE


def test_nothing_moves_a_schedule_that_is_done():
    run = Run().until_done()
    assert not any(run.step(0.01) for _ in range(100))
    assert run.schedule.stage == DONE


def test_warm_up_is_two_steps_and_its_fastest_gives_the_step_time():
    run = Run()
    run.step(5.0)
    assert run.schedule.stage == WARMUP
    run.step(0.02)
    assert run.schedule.stage == BARE
    assert run.schedule.step_seconds == 0.02


def test_bare_windows_grow_to_the_window_time_and_no_further():
    run = Run(tolerance=0.0, seconds=1e9).until_done(lambda index: 0.01 * (1 + index % 7 / 10))
    sizes = run.sizes(BARE)
    assert sizes[:3] == [5, 10, 20]
    assert max(sizes) <= 0.5 / 0.01 + 1
    assert sizes[-3] > 20


def test_a_phases_window_is_half_its_bare_neighbour_but_never_tiny():
    run = Run(seconds=1e9).until_done(lambda index: 0.025)
    assert min(run.sizes(PHASES)) >= 5
    assert max(run.sizes(PHASES)) <= max(run.sizes(BARE)) // 2 + 1
    assert not run.spared


def test_of_short_steps_every_other_is_looked_into_in_a_window_twice_as_long():
    run = Run(seconds=1e9).until_done(lambda index: 0.01)
    assert max(run.sizes(PHASES)) == max(run.sizes(BARE))
    assert run.spared


def test_a_short_run_is_looked_at_as_a_whole():
    run = Run(steps=20, seconds=1e9).until_done(lambda index: 0.01)
    assert run.sizes(PHASES)[0] == 5
    assert not run.spared


def test_three_agreeing_windows_settle():
    run = Run().until_done()
    assert run.schedule.settled
    last = run.schedule.bare_means[-3:]
    assert len(last) == 3
    assert max(last) <= min(last) * 1.05


def test_steps_that_drift_do_not_settle_before_the_limit():
    run = Run(steps=1000).until_done(lambda index: 0.01 * 1.01**index)
    assert not run.schedule.settled
    assert run.schedule.stage == DONE


def test_a_slow_start_settles_once_it_is_over():
    run = Run().until_done(lambda index: 0.01 if index > 60 else 0.1 - index * 0.0015)
    assert run.schedule.settled
    assert run.schedule.bare_means[-1] == pytest.approx(0.01)


def test_windows_of_a_handful_of_fast_steps_settle_nothing():
    run = Run()
    while len(run.sizes(BARE)) < 1:
        run.step(0.001)
    assert run.sizes(BARE) == [5]
    assert run.schedule.bare_means == []


def test_the_limit_of_steps_ends_measuring():
    run = Run(steps=30, tolerance=0.0).until_done(lambda index: 0.01 * (1 + index % 3))
    measured = sum(run.sizes(BARE)) + sum(run.sizes(PHASES))
    assert 30 <= measured <= 32
    assert not run.schedule.settled


def test_the_limit_of_seconds_ends_measuring():
    run = Run(seconds=2.0, tolerance=0.0)
    run.until_done(lambda index: 0.01 * (1 + index % 3))
    after = sum(run.sizes(MEMORY)) + sum(run.sizes(KERNELS))
    assert run.now - 1000.0 <= 2.0 + (after + 4) * 0.03


def test_both_passes_are_seen_even_where_the_first_step_is_over_the_limit():
    run = Run(seconds=0.001, steps=1).until_done()
    assert run.order() == [WARMUP, BARE, PHASES, MEMORY, KERNELS]
    assert run.sizes(BARE) == [2]
    assert run.sizes(PHASES) == [2]


def test_slow_steps_make_small_windows():
    run = Run(seconds=60.0).until_done(lambda index: 3.0)
    assert run.sizes(BARE)[0] == 2
    assert run.sizes(KERNELS) == [1]
    assert run.schedule.settled


def test_steps_of_a_second_make_windows_of_three():
    run = Run(seconds=60.0).until_done(lambda index: 1.0)
    assert set(run.sizes(BARE)) == {3}
    assert run.sizes(KERNELS) == [3]


def test_steps_that_do_not_count_fill_no_window():
    run = Run()
    run.until_done(counts=lambda index: index % 3 != 0)
    plain = Run().until_done()
    assert run.windows == plain.windows
    assert len(run.stages) > len(plain.stages)


def test_a_step_that_does_not_count_leaves_the_mean_alone():
    run = Run().until_done(
        lambda index: 5.0 if index % 10 == 9 else 0.001,
        counts=lambda index: index % 10 != 9,
    )
    assert all(mean == pytest.approx(0.001) for mean in run.schedule.bare_means)
    assert run.schedule.settled == (len(run.schedule.bare_means) >= 3)


def test_a_step_that_is_forgotten_is_made_up_for_and_leaves_the_mean_alone():
    run, plain = Run(), Run().until_done(lambda index: 0.01)
    for _ in range(4):
        run.step(0.01)
    assert (run.schedule.stage, run.schedule.counted_steps) == (BARE, 2)
    run.step(5.0)
    run.schedule.forget_last()
    assert run.schedule.counted_steps == 2
    run.until_done(lambda index: 0.01)
    assert run.schedule.bare_means == pytest.approx(plain.schedule.bare_means)
    assert len(run.stages) == len(plain.stages) + 1


def test_nothing_is_forgotten_of_a_warm_up_or_an_empty_window():
    run = Run()
    run.step(5.0)
    run.schedule.forget_last()
    run.step(0.02)
    assert run.schedule.stage == BARE
    run.schedule.forget_last()
    assert run.schedule.counted_steps == 0


def test_a_run_in_which_no_step_counts_ends_all_the_same():
    run = Run().until_done(counts=lambda index: False)
    assert {stage for stage, _ in run.windows} == {WARMUP, BARE, PHASES, MEMORY, KERNELS}


def test_steps_that_do_not_count_are_borne_with_for_a_while():
    run = Run()
    for _ in range(2):
        run.step(0.01)
    assert run.schedule.stage == BARE
    for _ in range(PATIENCE):
        run.step(9.0, counts=False)
    assert run.schedule.counted_steps == 0
    run.step(0.01)
    for _ in range(PATIENCE):
        run.step(9.0, counts=False)
    assert run.schedule.counted_steps == 1
    run.step(9.0, counts=False)
    assert run.schedule.counted_steps == 2


def test_counted_steps_are_those_of_bare_and_phases_windows():
    run = Run().until_done()
    assert run.schedule.counted_steps == sum(run.sizes(BARE)) + sum(run.sizes(PHASES))


def test_a_brief_run_goes_straight_to_memory_and_kernels():
    run = Run(brief=True).until_done()
    assert run.stages == [WARMUP, MEMORY, KERNELS]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-4, 5.0), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 400),
    st.floats(0.1, 60.0),
)
def test_any_run_with_steps_that_count_ends_and_has_seen_every_pass(pattern, steps, seconds):
    pattern = [*pattern, (0.01, True)]
    run = Run(steps=steps, seconds=seconds)
    run.until_done(
        lambda index: pattern[index % len(pattern)][0],
        lambda index: pattern[index % len(pattern)][1],
    )
    assert {stage for stage, _ in run.windows} == {WARMUP, BARE, PHASES, MEMORY, KERNELS}
    assert all(size >= 1 for _, size in run.windows)


GUARD = {"bare": True, "guard_steps": 48, "guard_seconds": 6.0}


@pytest.mark.parametrize(
    ("seconds", "fill", "steps"),
    [
        (0.001, 0.0, 48),
        (0.001, 2.0, 192),  # no more than these
        (0.03125, 2.0, 65),  # as many as two seconds hold; the first one starts the clock
        (0.1, 2.0, 48),  # longer than two seconds, but these are needed
        (0.25, 2.0, 25),  # all that six seconds hold
        (1.0, 2.0, 14),  # fewer could not tell
        (30.0, 2.0, 5),  # longer than anybody waits
    ],
)
def test_the_guard_gets_its_steps_and_more_where_they_are_short(seconds, fill, steps):
    run = Run(**GUARD, guard_fill=fill).until_done(lambda index: seconds)
    assert run.sizes(WARMUP) == [steps]


@pytest.mark.parametrize("seconds", [0.3, 0.6, 1.0, 2.0, 4.0, 6.0])
def test_trials_of_slow_steps_have_as_many_as_the_guard_needs(seconds):
    run = Run(**GUARD, guard_fill=2.0, seconds=5.0, window_seconds=0.4)
    assert len(run.until_done(lambda index: seconds).stages) >= guarding.LEAST_STEPS


def test_a_window_may_be_told_to_end_with_the_first_step_that_counts():
    run = Run()
    while run.schedule.stage != KERNELS:
        run.step(0.01)
    run.schedule.end_window()
    assert not run.step(0.01, counts=False)
    assert run.step(0.01)
    assert (run.sizes(KERNELS), run.schedule.stage) == ([1], DONE)
