import json
import os
import signal

import pytest

from hotlap.settings import Limits
from hotlap.trials import runner
from hotlap.trials.folder import TrialFolder


class Clock:
    """Time as the polling loop sees it; each look at the supervisor moves it on."""

    def __init__(self, seconds):
        self.now, self.seconds = 0.0, seconds

    def monotonic(self):
        return self.now


class Supervisor:
    def __init__(self, clock, *, ends=10_000.0, each=lambda now: None):
        self.clock, self.ends, self.each = clock, ends, each

    def has_word(self, seconds):
        self.clock.now += self.clock.seconds
        self.each(self.clock.now)
        return self.clock.now >= self.ends


@pytest.fixture
def folder(tmp_path):
    folder = TrialFolder(tmp_path)
    folder.create()
    return folder


def say(folder, pid, **state):
    (folder.progress / f"{pid}.json").write_text(json.dumps(state))


@pytest.fixture
def follow(folder, monkeypatch):
    def run(*, ends=10_000.0, each=lambda now: None, **limits):
        clock = Clock(seconds=1.0)
        monkeypatch.setattr(runner, "time", clock)
        supervisor = Supervisor(clock, ends=ends, each=each)
        followed = runner._follow(supervisor, folder, Limits(**limits), lambda state: None)
        why, run.idle = followed
        return why, clock.now

    return run


def test_a_command_that_ends_by_itself_was_not_stopped(follow):
    assert follow(ends=5.0)[0] is None


def test_no_step_within_the_timeout_stops_it(follow):
    why, now = follow(timeout=30.0)
    assert why == "timeout"
    assert 30 < now <= 33


def test_a_process_that_is_done_has_measured_enough(follow, folder):
    say(folder, 1, stage="done", steps=100)
    assert follow() == ("enough", 1.0)


def test_the_other_ranks_get_a_while_to_finish(follow, folder):
    say(folder, 1, stage="done", steps=100)
    say(folder, 2, stage="kernels", steps=99)
    why, now = follow()
    assert why == "enough"
    assert runner.STRAGGLER_SECONDS < now <= runner.STRAGGLER_SECONDS + 3


def test_a_rank_that_finishes_ends_the_waiting(follow, folder):
    say(folder, 1, stage="done", steps=100)
    say(folder, 2, stage="kernels", steps=99)

    def each(now):
        if now == 4.0:
            say(folder, 2, stage="done", steps=100)

    assert follow(each=each) == ("enough", 4.0)


@pytest.mark.parametrize("step_seconds", [0.01, 10.0, None])
def test_steps_that_stop_coming_for_the_timeout_are_a_stall(follow, folder, step_seconds):
    say(folder, 1, stage="bare", steps=50, step_seconds=step_seconds)
    why, now = follow(timeout=20.0)
    assert why == "stalled"
    assert 20 < now <= 23


def test_the_timeout_counts_from_the_last_step(follow, folder):
    def each(now):
        if now <= 15.0:
            say(folder, 1, stage="bare", steps=int(now))

    why, now = follow(each=each, timeout=20.0)
    assert why == "stalled"
    assert 35 < now <= 38
    assert 20 < follow.idle <= 23, "of the whole run, only what came after the last step"


def test_evaluation_for_several_minutes_is_no_stall(follow, folder):
    say(folder, 1, stage="bare", steps=50, step_seconds=0.01)
    assert follow(ends=500.0) == (None, 500.0)


def test_steps_that_keep_coming_are_no_stall(follow, folder):
    def each(now):
        say(folder, 1, stage="bare", steps=int(now), step_seconds=0.01)

    assert follow(each=each, ends=500.0) == (None, 500.0)


def test_half_a_progress_file_is_passed_over(follow, folder):
    (folder.progress / "1.json").write_text('{"stage": "do')
    (folder.progress / "2.json").write_text("[]")
    assert follow(timeout=30.0)[0] == "timeout"


def test_signals_that_come_while_it_is_stopped_wait_and_ignored_ones_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    try:
        with runner.undisturbed() as came:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGINT)
        assert came == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)
