from itertools import count

import pytest
from clocked import Clock, Event, during, milliseconds
from hypothesis import given
from hypothesis import strategies as st

from hotlap.probes.timeline import (
    BACKWARD,
    BOUNDARY,
    FORWARD,
    GAP,
    INPUT,
    OPTIMIZER,
    OTHER,
    TRANSFER,
    Timeline,
    name_gaps,
    seconds_of,
    split,
)

PHASES = (INPUT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timeline(clock):
    return Timeline(clock, None)


def test_a_plain_step_is_split_into_its_phases(timeline, clock):
    timeline.boundary()
    during(timeline, clock, INPUT, 1)
    clock.pass_(2)
    during(timeline, clock, FORWARD, 3)
    clock.pass_(4)
    during(timeline, clock, BACKWARD, 5)
    during(timeline, clock, OPTIMIZER, 6)
    clock.pass_(7)
    timeline.boundary()
    (stretch,) = split(timeline.marks)
    assert milliseconds(stretch) == {
        INPUT: 1,
        FORWARD: 3,
        GAP: 4,
        BACKWARD: 5,
        OPTIMIZER: 6,
        OTHER: 9,
    }


def test_each_stretch_between_boundaries_is_a_step(timeline, clock):
    for length in (1, 2, 3):
        timeline.boundary()
        during(timeline, clock, FORWARD, length)
    timeline.boundary()
    assert [milliseconds(stretch) for stretch in split(timeline.marks)] == [
        {FORWARD: 1},
        {FORWARD: 2},
        {FORWARD: 3},
    ]


def test_what_lies_before_the_first_and_after_the_last_boundary_is_left_out(timeline, clock):
    during(timeline, clock, INPUT, 100)
    timeline.boundary()
    during(timeline, clock, INPUT, 1)
    timeline.boundary()
    during(timeline, clock, INPUT, 100)
    assert [milliseconds(stretch) for stretch in split(timeline.marks)] == [{INPUT: 1}]


def test_marks_without_two_boundaries_make_no_step(timeline, clock):
    assert split([]) == []
    timeline.boundary()
    clock.pass_(1)
    assert split(timeline.marks) == []


def test_a_closure_inside_the_optimizer_keeps_its_own_phases(timeline, clock):
    timeline.boundary()
    timeline.enter(OPTIMIZER)
    clock.pass_(1)
    during(timeline, clock, FORWARD, 2)
    during(timeline, clock, BACKWARD, 3)
    clock.pass_(4)
    timeline.leave(OPTIMIZER)
    timeline.boundary()
    (stretch,) = split(timeline.marks)
    assert milliseconds(stretch) == {OPTIMIZER: 5, FORWARD: 2, BACKWARD: 3}


def test_a_phase_left_on_the_stack_by_an_exception_is_unwound(timeline, clock):
    timeline.boundary()
    timeline.enter(OPTIMIZER)
    timeline.enter(FORWARD)  # raises: nobody leaves it
    clock.pass_(1)
    timeline.leave(OPTIMIZER)
    clock.pass_(2)
    timeline.boundary()
    (stretch,) = split(timeline.marks)
    assert milliseconds(stretch) == {FORWARD: 1, OTHER: 2}


def test_leaving_what_was_never_entered_leaves_an_empty_stack(timeline, clock):
    timeline.boundary()
    timeline.leave(BACKWARD)
    clock.pass_(1)
    timeline.boundary()
    assert milliseconds(split(timeline.marks)[0]) == {OTHER: 1}


def test_what_a_graph_records_is_not_marked_nor_is_its_end(clock):
    capturing = []
    timeline = Timeline(clock, None, is_capturing=lambda: bool(capturing))
    timeline.boundary()
    timeline.enter(FORWARD)
    clock.pass_(1)
    capturing.append("a graph")
    timeline.enter(OPTIMIZER)
    clock.pass_(1)
    capturing.clear()
    timeline.leave(OPTIMIZER)  # recording ended in between
    clock.pass_(1)
    timeline.leave(FORWARD)
    clock.pass_(1)
    timeline.boundary()
    (stretch,) = split(timeline.marks)
    assert milliseconds(stretch) == {FORWARD: 3, OTHER: 1}


def test_a_boundary_inside_a_phase_splits_it(timeline, clock):
    timeline.boundary()
    timeline.enter(INPUT)
    clock.pass_(1)
    timeline.boundary()
    clock.pass_(2)
    timeline.leave(INPUT)
    timeline.boundary()
    assert [milliseconds(stretch) for stretch in split(timeline.marks)] == [{INPUT: 1}, {INPUT: 2}]


def test_the_sampler_reads_the_phase_of_the_moment(timeline):
    assert timeline.now == OTHER
    timeline.enter(OPTIMIZER)
    timeline.enter(FORWARD)
    assert timeline.now == FORWARD
    timeline.leave(FORWARD)
    assert timeline.now == OPTIMIZER
    timeline.leave(OPTIMIZER)
    assert timeline.now == OTHER
    timeline.enter(FORWARD)
    timeline.leave(FORWARD)
    assert timeline.now == GAP
    timeline.boundary()
    assert timeline.now == OTHER


def test_phases_that_are_never_left_do_not_pile_up_for_ever(timeline, clock):
    for _ in range(40):
        timeline.enter(FORWARD)
    timeline.boundary()
    timeline.boundary()
    clock.pass_(1)
    timeline.boundary()
    assert milliseconds(split(timeline.marks)[-1]) == {OTHER: 1}


def test_clearing_hands_the_marks_over(timeline):
    timeline.boundary()
    marks = timeline.clear()
    assert [mark[0] for mark in marks] == [BOUNDARY, OTHER]
    assert timeline.marks == []


def test_a_new_window_knows_nothing_of_what_was_entered_before_it(timeline, clock):
    timeline.boundary()
    timeline.enter(OPTIMIZER)  # GradScaler.step, left when nobody is looking any more
    timeline.restart()
    assert timeline.marks == []
    assert timeline.now == OTHER
    timeline.boundary()
    during(timeline, clock, FORWARD, 1)
    during(timeline, clock, BACKWARD, 2)
    clock.pass_(3)
    timeline.boundary()
    assert milliseconds(split(timeline.marks)[0]) == {FORWARD: 1, BACKWARD: 2, OTHER: 3}


moves = st.lists(
    st.tuples(
        st.sampled_from(["enter", "leave", "boundary"]),
        st.sampled_from(PHASES),
        st.integers(0, 1000),
    ),
    max_size=60,
)


@given(moves)
def test_phases_add_up_to_the_time_between_boundaries_whatever_happens(sequence):
    clock = Clock()
    timeline = Timeline(clock, None)
    boundaries = []

    def boundary():
        boundaries.append(clock.now)
        timeline.boundary()

    boundary()
    for what, phase, passed in sequence:
        clock.now += passed
        boundary() if what == "boundary" else getattr(timeline, what)(phase)
    boundary()
    stretches = split(timeline.marks)
    assert len(stretches) == len(boundaries) - 1
    for stretch, first, last in zip(stretches, boundaries, boundaries[1:], strict=False):
        assert sum(stretch.values()) == pytest.approx((last - first) * 1e-9, abs=1e-15)
        assert all(seconds >= 0 for seconds in stretch.values())


@given(st.lists(st.sampled_from((*PHASES, OTHER, GAP))))
def test_naming_gaps_renames_only_gaps_and_other(names):
    named = name_gaps(names)
    assert len(named) == len(names)
    for before, after in zip(names, named, strict=True):
        assert before == after or {before, after} == {GAP, OTHER}


@given(st.lists(st.sampled_from((*PHASES, OTHER, GAP))))
def test_a_gap_always_stands_before_a_backward_pass(names):
    named = name_gaps(names)
    for index, name in enumerate(named):
        if name == GAP:
            assert BACKWARD in named[index:]


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ([FORWARD, GAP, BACKWARD], [FORWARD, GAP, BACKWARD]),
        # Evaluation: no backward pass follows the model.
        ([FORWARD, GAP, INPUT], [FORWARD, OTHER, INPUT]),
        ([BACKWARD, OTHER, FORWARD, GAP], [BACKWARD, OTHER, FORWARD, OTHER]),
        # zero_grad() between the model and the backward pass.
        ([FORWARD, GAP, OPTIMIZER, OTHER, BACKWARD], [FORWARD, GAP, OPTIMIZER, GAP, BACKWARD]),
        # The targets are copied when the model has run.
        ([FORWARD, GAP, TRANSFER, OTHER, BACKWARD], [FORWARD, GAP, TRANSFER, GAP, BACKWARD]),
        # Before the model, and between two calls of it, other things stand.
        (
            [TRANSFER, OTHER, FORWARD, GAP, OPTIMIZER, OTHER, FORWARD, GAP, BACKWARD],
            [TRANSFER, OTHER, FORWARD, GAP, OPTIMIZER, OTHER, FORWARD, GAP, BACKWARD],
        ),
        # Two losses of one call of the model: what follows the first is on the way to the second.
        ([FORWARD, GAP, BACKWARD, OTHER, BACKWARD], [FORWARD, GAP, BACKWARD, OTHER, BACKWARD]),
        # A batch between them: the model's output was not what is trained on.
        ([FORWARD, GAP, INPUT, OTHER, BACKWARD], [FORWARD, OTHER, INPUT, OTHER, BACKWARD]),
        # No known model: whatever stands between the batch and the backward pass.
        ([INPUT, OTHER, BACKWARD, OTHER], [INPUT, GAP, BACKWARD, OTHER]),
        ([OTHER, TRANSFER, OTHER, BACKWARD], [OTHER, TRANSFER, GAP, BACKWARD]),
        ([], []),
    ],
)
def test_what_stands_between_model_and_backward_is_the_gap(names, named):
    assert name_gaps(names) == named


def test_times_count_from_the_first_mark(clock):
    marks = [(OTHER, 5_000_000_000, None), (INPUT, 5_250_000_000, None)]
    assert seconds_of(marks) == [0.0, pytest.approx(0.25)]
    assert seconds_of([]) == []


def test_with_a_device_the_events_are_the_clock_and_the_host_is_not(clock):
    device_time = count(start=0, step=10)  # milliseconds
    timeline = Timeline(clock, lambda: Event(next(device_time)))
    timeline.boundary()
    timeline.enter(FORWARD)
    clock.pass_(5000)
    timeline.leave(FORWARD)
    clock.pass_(1)
    timeline.enter(BACKWARD)
    timeline.leave(BACKWARD)
    timeline.boundary()
    (stretch,) = split(timeline.marks)
    assert milliseconds(stretch) == {FORWARD: 10, GAP: 10, BACKWARD: 10}


@pytest.fixture
def recorded():
    return []


@pytest.fixture
def on_device(clock, recorded):
    """A timeline whose device takes 10 ms between any two events."""
    device_time = count(start=0, step=10)

    def event():
        recorded.append(Event(next(device_time)))
        return recorded[-1]

    return Timeline(clock, event)


def test_what_follows_at_once_shares_the_event_of_the_one_before(on_device, recorded):
    on_device.boundary()
    for phase in (INPUT, OPTIMIZER, FORWARD):  # the same moment
        on_device.enter(phase)
        on_device.leave(phase)
    on_device.boundary()
    (stretch,) = split(on_device.marks)
    assert milliseconds(stretch) == {INPUT: 10, OPTIMIZER: 10, FORWARD: 10}
    assert len(recorded) == 4


def test_what_follows_later_may_have_been_preceded_by_work(on_device, clock, recorded):
    on_device.boundary()
    for phase in (INPUT, OPTIMIZER):
        clock.pass_(1)
        on_device.enter(phase)
        on_device.leave(phase)
    on_device.boundary()
    (stretch,) = split(on_device.marks)
    assert milliseconds(stretch) == {INPUT: 10, OPTIMIZER: 10, OTHER: 20}
    assert len(recorded) == 5


@pytest.mark.parametrize(
    ("first", "then", "between"), [(TRANSFER, FORWARD, OTHER), (FORWARD, BACKWARD, GAP)]
)
def test_the_device_may_be_given_much_in_a_moment_after_a_copy_or_the_model(
    on_device, first, then, between
):
    on_device.boundary()
    on_device.enter(first)
    on_device.leave(first)
    on_device.enter(then)
    on_device.leave(then)
    on_device.boundary()
    (stretch,) = split(on_device.marks)
    assert milliseconds(stretch) == {first: 10, between: 10, then: 10}


@pytest.mark.parametrize("between", [TRANSFER, OPTIMIZER])
def test_the_loss_is_the_loss_after_targets_are_copied_or_gradients_zeroed(
    on_device, clock, between
):
    on_device.boundary()
    for phase in (FORWARD, between, BACKWARD):
        on_device.enter(phase)
        on_device.leave(phase)
        clock.pass_(1)
    on_device.boundary()
    (stretch,) = split(on_device.marks)
    assert milliseconds(stretch) == {FORWARD: 10, between: 10, GAP: 20, BACKWARD: 10, OTHER: 10}


def test_what_begins_when_the_marks_have_been_taken_away_has_none_to_share(on_device):
    on_device.boundary()
    on_device.enter(OPTIMIZER)
    on_device.leave(OPTIMIZER)
    on_device.clear()
    on_device.enter(FORWARD)  # training that goes on while the interpreter ends
    assert [phase for phase, _, _ in on_device.marks] == [FORWARD]


def test_events_of_another_stream_are_waited_for_where_the_last_one_did_not():
    class Late(Event):
        done = False

        def synchronize(self):
            self.done = True

        def elapsed_time(self, other):
            if not self.done or not other.done:
                raise RuntimeError("Both events must be completed before calculating elapsed time.")
            return super().elapsed_time(other)

    marks = [(BOUNDARY, 0, Late(at)) for at in (0, 7, 4)]
    marks[0][2].done = marks[-1][2].done = True
    assert seconds_of(marks) == pytest.approx([0, 0.007, 0.004])
