import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
from types import FrameType

import pytest
import torch

from hotlap.probes import places, sampling
from hotlap.probes.sampling import DEEPEST, Sampler, stack_of
from hotlap.probes.timeline import UNSEEN


def sample_here(sampler, times):
    for _ in range(times):
        sampler.sample()
    sampler.count()


def test_samples_are_counted_by_phase_and_line():
    phase = ["forward"]
    sampler = Sampler(threading.get_ident(), lambda: phase[0])
    sample_here(sampler, 3)
    phase[0] = "other"
    sample_here(sampler, 1)
    assert sampler.totals == {"forward": 3, "other": 1}
    summary = sampler.summary()
    (forward,) = summary["forward"]
    assert forward["file"] == __file__
    assert forward["function"] == "sample_here"
    assert (forward["share"], forward["samples"]) == (1.0, 3)
    assert len(summary["other"]) == 1


def test_steps_nobody_looks_into_give_no_samples():
    sampler = Sampler(threading.get_ident(), lambda: UNSEEN)
    sample_here(sampler, 3)
    assert not sampler.totals
    assert not sampler.counts


def test_shares_are_of_the_phase_and_the_busiest_line_stands_first():
    sampler = Sampler(threading.get_ident(), lambda: "other")
    sampler.sample()
    sample_here(sampler, 3)
    lines = sampler.summary()["other"]
    assert [line["share"] for line in lines] == [0.75, 0.25]
    assert lines[0]["function"] == "sample_here"


def test_what_was_seen_between_two_readings_of_the_clock_can_be_left_out():
    sampler = Sampler(threading.get_ident(), lambda: "other")
    sampler.sample()
    first = time.perf_counter_ns()
    for _ in range(3):
        sampler.sample()
    last = time.perf_counter_ns()
    sampler.sample()
    sampler.sample()
    sampler.count([(0, 1), (first, last)])
    assert sampler.totals == {"other": 3}
    assert sum(line["samples"] for line in sampler.summary()["other"]) == 3
    sampler.count()  # and each is counted once
    assert sampler.totals == {"other": 3}


def test_only_the_busiest_lines_of_a_phase_are_told():
    sampler = Sampler(threading.get_ident(), lambda: "other")
    sampler.sample()
    sampler.sample()
    sampler.sample()
    sampler.count()
    assert len(sampler.summary(most=2)["other"]) == 2
    assert len(sampler.summary()["other"]) == 3


def test_a_thread_that_has_ended_gives_no_samples():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    sampler = Sampler(thread.ident, lambda: "other")
    sampler.sample()
    sampler.count()
    assert sampler.totals == {}
    assert sampler.summary() == {}


def test_library_code_counts_for_the_phase_but_has_no_line():
    ready, release = threading.Event(), threading.Event()

    thread = threading.Thread(
        target=exec, args=("ready.set(); release.wait()", {"ready": ready, "release": release})
    )
    thread.start()
    assert ready.wait(10)
    sampler = Sampler(thread.ident, lambda: "other")
    sampler.sample()
    sampler.count()
    release.set()
    thread.join()
    assert sampler.totals == {"other": 1}
    assert sampler.summary() == {}


def seen_in(*filenames):
    """What is told of a line of this file that calls code of these files, the innermost first."""
    called = [(compile("pass", file, "exec"), 1) for file in filenames]
    sampler = Sampler(0, lambda: "backward")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "stack_of", lambda thread: [*called, (seen_in.__code__, 7)])
        sampler.sample()
    sampler.count()
    (line,) = sampler.summary()["backward"]
    return line


def test_a_line_that_waits_for_torch_is_told_from_one_that_runs_by_itself():
    graph = os.path.join(os.path.dirname(torch.__file__), "autograd", "graph.py")
    assert seen_in(graph)["in_torch"] == 1
    assert seen_in()["in_torch"] == 0
    assert seen_in(json.__file__, graph)["in_torch"] == 0  # called back, as a gradient's own code
    assert seen_in("/tmp/torchinductor_user/ab/kernels.py")["in_torch"] == 1


@contextlib.contextmanager
def waiting(deep=0):
    """A thread that waits below so many calls of its own."""
    ready, release = threading.Event(), threading.Event()
    thread = threading.Thread(target=descend, args=(deep, lambda: (ready.set(), release.wait())))
    thread.start()
    assert ready.wait(10)
    try:
        yield thread.ident
    finally:
        release.set()
        thread.join()


def descend(deep, act):
    return descend(deep - 1, act) if deep else act()


def test_no_frame_of_the_thread_is_held_while_its_files_are_looked_at(monkeypatch):
    held = []

    def is_users(filename):
        frame = sys._getframe(1)
        while frame.f_code is not Sampler.count.__code__:
            held.extend(value for value in frame.f_locals.values() if type(value) is FrameType)
            frame = frame.f_back
        held.extend(value for value in frame.f_locals.values() if type(value) is FrameType)
        return False

    monkeypatch.setattr(places, "is_users", is_users)
    with waiting() as thread:
        sampler = Sampler(thread, lambda: "other")
        sampler.sample()
    sampler.count()
    assert sampler.totals == {"other": 1}
    assert held == []


def test_a_stack_is_read_without_an_instruction_of_ours_in_between():
    lines = []

    def trace(frame, event, argument):
        frame.f_trace_opcodes = True
        if event == "opcode":
            lines.append(frame.f_lasti)
        return trace

    counts = []
    for deep in (1, 100):
        with waiting(deep) as thread:
            lines.clear()
            sys.settrace(trace)
            stack = stack_of(thread)
            sys.settrace(None)
        counts.append(len(lines))
        assert [code.co_name for code, _ in stack].count("descend") == deep + 1
    assert counts[0] == counts[1], "as many instructions however deep the stack is"


def test_a_stack_without_end_is_read_up_to_a_depth():
    with waiting(DEEPEST + 10) as thread:
        assert len(stack_of(thread)) == DEEPEST


@pytest.mark.parametrize("collects", [True, False])
def test_reading_a_stack_leaves_the_garbage_collector_as_it_was(collects):
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        stack_of(threading.get_ident())
        stack_of(1)  # no thread's number
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()


def test_steps_nobody_looks_into_do_not_even_have_their_frames_asked_for(monkeypatch):
    monkeypatch.setattr(sys, "_current_frames", None)
    Sampler(threading.get_ident(), lambda: UNSEEN).sample()


@pytest.mark.parametrize("started", [True, False])
def test_finishing_ends_the_thread(started):
    sampler = Sampler(threading.get_ident(), lambda: "other")
    if started:
        sampler.start()
        sampler.start()
        sampler.pause()
        worker = sampler._worker
        assert worker.is_alive()
        assert worker.daemon
    sampler.finish()
    if started:
        worker.join(10)
        assert not worker.is_alive()
    assert [t.name for t in threading.enumerate() if t.name == "hotlap-sampler"] == []


def test_a_short_call_that_holds_the_interpreter_is_seen():
    sampler = Sampler(threading.get_ident(), lambda: "other")
    big = list(range(20_000))
    sampler.start()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any("dump" in key[3] for key in sampler.counts):
        dump(big)
        time.sleep(0.001)  # where the sampler would get its turn otherwise
        sampler.count()
    sampler.finish()
    assert any("dump" in key[3] for key in sampler.counts)


def dump(big):
    return json.dumps(big)


def test_the_scripts_own_switch_interval_comes_back():
    before = sys.getswitchinterval()
    sampler = Sampler(threading.get_ident(), lambda: "other")
    sampler.start()
    sampler.start()
    assert sys.getswitchinterval() < before
    sampler.pause()
    assert sys.getswitchinterval() == before
    sampler.start()
    sampler.finish()
    assert sys.getswitchinterval() == before


def in_a_fork(act):
    """Whether it answers True in a forked child, within a time."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os._exit(0 if act() else 1)
        os._exit(2)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_a_forked_child_does_not_wait_for_what_the_thread_held():
    sampler = Sampler(threading.get_ident(), lambda: "other")
    before = sys.getswitchinterval()
    sampler.start()
    held = sampler._on._cond  # by the thread, for a moment, each time it looks whether to go on
    held.acquire()
    try:
        assert in_a_fork(lambda: sampler.finish() is None and sys.getswitchinterval() == before)
    finally:
        held.release()
        sampler.finish()


@pytest.mark.parametrize("collects", [True, False])
def test_a_child_forked_while_a_stack_is_read_collects_as_the_script_does(monkeypatch, collects):
    forked = []

    def frames():
        forked.append(in_a_fork(lambda: sampler.finish() is None and gc.isenabled() is collects))
        return {}

    monkeypatch.setattr(sys, "_current_frames", frames)
    sampler = Sampler(threading.get_ident(), lambda: "other")
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        sampler.sample()
    finally:
        (gc.enable if before else gc.disable)()
        sampler.finish()
    assert forked == [True]
