"""Events on the streams of a device that is behind the host, as a GPU at work is."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from clocked import Clock, milliseconds

from hotlap.probes.events import Events
from hotlap.probes.timeline import (
    BACKWARD,
    FORWARD,
    INPUT,
    OPTIMIZER,
    OTHER,
    TRANSFER,
    Timeline,
    split,
)

DEFAULT, SIDE = (0, 0, 1), (32, 0, 1)


class Device:
    """As much of torch as events ask for; each stream works off what it is given, in order."""

    def __init__(self, clock):
        self._clock = clock
        self._free = {DEFAULT: 0.0, SIDE: 0.0}
        self._now = DEFAULT
        self._C = SimpleNamespace(
            _cuda_getCurrentStream=lambda index: self._now,
            _CudaEventBase=SimpleNamespace(record=self._record),
        )
        self.cuda = SimpleNamespace(current_stream=lambda device: self._now, Event=Recorded)

    def _done(self, stream):
        return max(self._clock.now / 1e6, self._free[stream])

    def _record(self, event, stream):
        event.at = self._done(stream)

    def work(self, took):
        self._free[self._now] = self._done(self._now) + took

    def wait_for(self, stream):
        self._free[self._now] = max(self._done(self._now), self._free[stream])

    @contextmanager
    def stream(self, stream):
        before, self._now = self._now, stream
        yield
        self._now = before


class Recorded:
    at = None

    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self, stream):
        raise AssertionError("torch's C function is called instead")

    def elapsed_time(self, other):
        return other.at - self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def device(clock):
    return Device(clock)


@pytest.fixture
def events(device):
    return Events(device, SimpleNamespace(type="cuda", index=0))


@pytest.fixture
def timeline(clock, events):
    return Timeline(clock, events, beside=events.beside)


def issue(timeline, clock, device, phase, *, host, took, stream=DEFAULT):
    with device.stream(stream):
        timeline.enter(phase)
        clock.pass_(host)
        device.work(took)
        timeline.leave(phase)


def step(timeline, clock, device, *, ahead):
    """The host takes 3 ms for it, or 4, and the device 9 or 10; `ahead` is where copies go."""
    issue(timeline, clock, device, INPUT, host=1, took=0, stream=ahead)
    clock.pass_(1)
    issue(timeline, clock, device, TRANSFER, host=1, took=1, stream=ahead)
    issue(timeline, clock, device, FORWARD, host=0, took=3)
    issue(timeline, clock, device, BACKWARD, host=0, took=5)
    issue(timeline, clock, device, OPTIMIZER, host=0, took=1)
    timeline.boundary()


def of_the_last(timeline):
    return milliseconds(split(timeline.marks)[-1])


def test_what_is_copied_where_training_takes_place_takes_its_time(timeline, clock, device):
    for _ in range(5):
        step(timeline, clock, device, ahead=DEFAULT)
    expected = {TRANSFER: 1, FORWARD: 3, BACKWARD: 5, OPTIMIZER: 1}
    assert of_the_last(timeline) == expected


def test_what_is_fetched_and_copied_beside_the_training_takes_none_of_it(timeline, clock, device):
    for _ in range(5):
        step(timeline, clock, device, ahead=SIDE)
    assert of_the_last(timeline) == {FORWARD: 3, BACKWARD: 5, OPTIMIZER: 1}


def test_what_the_training_waits_for_on_the_device_is_transfer(timeline, clock, device):
    """As doors to the waiting mark it: a copy of 20 ms beside 9 ms of training."""
    for _ in range(5):
        timeline.enter(TRANSFER)
        device.wait_for(SIDE)
        timeline.leave(TRANSFER)
        issue(timeline, clock, device, TRANSFER, host=1, took=20, stream=SIDE)
        issue(timeline, clock, device, FORWARD, host=0, took=8)
        issue(timeline, clock, device, OPTIMIZER, host=0, took=1)
        timeline.boundary()
    assert of_the_last(timeline) == {TRANSFER: 11, FORWARD: 8, OPTIMIZER: 1}


def test_copies_made_ahead_count_as_far_as_the_device_runs_dry(timeline, clock, device):
    step(timeline, clock, device, ahead=SIDE)
    clock.pass_(20)
    timeline.boundary()
    step(timeline, clock, device, ahead=SIDE)
    expected = {INPUT: 1, OTHER: 1, TRANSFER: 1, FORWARD: 3, BACKWARD: 5, OPTIMIZER: 1}
    assert of_the_last(timeline) == expected


def test_where_training_takes_place_is_where_it_did_last(events, device):
    with device.stream(SIDE):
        events()
    assert events.trains_on(SIDE)
    assert not events.trains_on(None)
    assert events.is_elsewhere()
    events.beside()
    assert events.is_elsewhere()
    events()
    assert events.trains_on(None)
    assert not events.trains_on(SIDE)
    assert not events.is_elsewhere()
