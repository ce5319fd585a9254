"""A clock that only tests move, events that only know it, and phases told by it."""


class Clock:
    """Nanoseconds that pass only when a test says so."""

    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now

    def pass_(self, milliseconds):
        self.now += milliseconds * 1_000_000


class Event:
    """A CUDA event: it knows only how many milliseconds passed since another one."""

    def __init__(self, at):
        self.at = at

    def elapsed_time(self, other):
        return other.at - self.at


def during(timeline, clock, phase, milliseconds):
    timeline.enter(phase)
    clock.pass_(milliseconds)
    timeline.leave(phase)


def milliseconds(stretch):
    return {name: round(seconds * 1e3, 6) for name, seconds in stretch.items() if seconds}
