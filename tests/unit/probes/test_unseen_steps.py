"""Steps the phases pass does not look into: they have a length, and disturb no others."""

import random
from itertools import islice

from clocked import Clock, Event, during, milliseconds

from hotlap.probes.timeline import (
    BACKWARD,
    FORWARD,
    INPUT,
    OPTIMIZER,
    OTHER,
    UNSEEN,
    Timeline,
    one_of,
    split,
)


def take_a_step(timeline, clock):
    during(timeline, clock, INPUT, 1)
    during(timeline, clock, BACKWARD, 4)
    timeline.finish(OPTIMIZER)


def test_a_step_nobody_looks_into_has_a_length_and_nothing_else():
    clock = Clock()
    recorded = []
    timeline = Timeline(clock, lambda: recorded.append(Event(clock.now / 1e6)) or recorded[-1])
    timeline.restart(iter([False, True, True]))
    timeline.boundary()
    before = len(recorded)
    take_a_step(timeline, clock)
    looked, before = len(recorded) - before, len(recorded)
    assert (timeline.now, timeline.watching) == (UNSEEN, False)
    take_a_step(timeline, clock)
    assert looked > len(recorded) - before == 1
    take_a_step(timeline, clock)
    first, second, third = (milliseconds(one) for one in split(timeline.marks))
    assert second == {UNSEEN: 5}
    assert first == third == {INPUT: 1, BACKWARD: 4}


def test_a_phase_that_reaches_into_the_next_step_is_looked_at_to_its_end():
    clock = Clock()
    timeline = Timeline(clock, None)
    timeline.restart(iter([False]))
    timeline.boundary()
    timeline.enter(BACKWARD)
    timeline.enter(OPTIMIZER)
    clock.pass_(2)
    timeline.finish(OPTIMIZER)
    assert timeline.watching
    clock.pass_(3)
    timeline.leave(BACKWARD)
    timeline.finish(OPTIMIZER)
    assert (timeline.now, timeline.watching) == (UNSEEN, False)
    assert [milliseconds(one) for one in split(timeline.marks)] == [{OPTIMIZER: 2}, {BACKWARD: 3}]


def test_a_phase_that_began_unseen_does_not_end_in_the_step_that_is_seen():
    clock = Clock()
    timeline = Timeline(clock, None)
    timeline.restart(iter([False, True]))
    timeline.boundary()
    timeline.finish(OPTIMIZER)
    timeline.enter(INPUT)
    timeline.finish(OPTIMIZER)
    clock.pass_(2)
    timeline.leave(INPUT)
    during(timeline, clock, FORWARD, 3)
    timeline.boundary()
    assert milliseconds(split(timeline.marks)[2]) == {OTHER: 2, FORWARD: 3}


def test_a_new_window_is_looked_into_as_a_whole_unless_told_otherwise():
    clock = Clock()
    timeline = Timeline(clock, None)
    timeline.restart(iter([False]))
    timeline.boundary()
    timeline.finish(OPTIMIZER)
    assert not timeline.watching
    timeline.restart()
    timeline.boundary()
    take_a_step(timeline, clock)
    assert milliseconds(split(timeline.marks)[0]) == {INPUT: 1, BACKWARD: 4}


def test_one_of_each_three_steps_is_chosen_and_not_always_the_same():
    chosen = list(islice(one_of(3, random.Random(0)), 300))
    threes = list(zip(chosen[::3], chosen[1::3], chosen[2::3], strict=True))
    assert all(sum(three) == 1 for three in threes)
    assert all(20 < sum(place) < 47 for place in zip(*threes, strict=True))
