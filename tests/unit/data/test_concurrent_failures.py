"""Concurrent: every failure is told, nothing hangs, and no thread is left behind."""

import os
import signal
import threading
import time
import warnings
import weakref

import pytest
import torch
from squares import Squares, fetching
from torch.utils.data import DataLoader

from hotlap.data.concurrent import Concurrent
from hotlap.data.failures import SampleError

FORKED_THREADS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def fails_at(*bad):
    def made(index):
        if index in bad:
            raise ValueError(f"{index} is broken")
        return index

    return made


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_stops_the_epoch_and_names_the_sample(workers):
    loader = DataLoader(Concurrent(Squares(fails_at(13))), 8, num_workers=workers)
    batches = iter(loader)
    assert next(batches).tolist() == list(range(8))
    with pytest.raises(SampleError, match="sample 13: ValueError: 13 is broken"):
        next(batches)


def test_a_single_sample_that_fails_is_named_too():
    with pytest.raises(SampleError, match="sample 3: ValueError: 3 is broken"):
        Concurrent(Squares(fails_at(3)), on_error="skip")[3]


def test_an_index_error_within_the_dataset_is_no_end():
    with pytest.raises(SampleError, match="sample 1: IndexError"):
        list(Concurrent(Squares(lambda index: [0][index])))


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_samples_are_counted_and_nothing_else_is_missing(workers):
    data = Concurrent(Squares(fails_at(3, 40)), on_error="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each process warns once
        got = torch.cat(list(DataLoader(data, 8, num_workers=workers))).tolist()
    assert got == [index for index in range(64) if index not in (3, 40)]
    assert (data.failures.count, data.failures.indices) == (2, [3, 40])


def test_a_batch_of_failures_is_an_error_also_when_skipping():
    data = Concurrent(Squares(fails_at(1, 2)), on_error="skip")
    with pytest.warns(UserWarning, match="sample 1"), pytest.raises(SampleError, match="every"):
        data.__getitems__([1, 2])


def test_numbers_of_other_kinds_are_counted_by_name():
    data = Concurrent(Squares(fails_at(2)), on_error="skip")
    with pytest.warns(UserWarning, match="sample 2 is skipped"):
        assert data.__getitems__([torch.tensor(1), torch.tensor(2)]) == [torch.tensor(1)]
    assert data.failures.indices == [2]


def test_after_an_error_what_has_not_begun_never_begins():
    begun = []

    def made(index):
        begun.append(index)
        if index == 0:
            raise ValueError("first")
        return index

    data = Concurrent(Squares(made), threads=1)
    with pytest.raises(SampleError, match="sample 0"):
        data.__getitems__(list(range(64)))
    assert begun == [0]


def test_after_an_error_what_is_under_way_ends_before_the_error_comes():
    both, ended = threading.Barrier(2), []

    def made(index):
        both.wait(60)
        if index == 0:
            raise ValueError("first")
        ended.append(index)
        return index

    with pytest.raises(SampleError, match="sample 0"):
        Concurrent(Squares(made), threads=2).__getitems__([0, 1])
    assert ended == [1]


def test_a_fetch_that_hangs_does_not_hide_another_error():
    never, hangs = threading.Event(), threading.Event()
    ticks = iter(range(0, 10**6, 10))  # every look at the clock is ten seconds later

    def made(index):
        if index == 1:
            hangs.set()
            never.wait(120)
        else:
            hangs.wait(60)
            raise ValueError("told")

    data = Concurrent(Squares(made), threads=2, clock=lambda: next(ticks))
    with pytest.raises(SampleError, match=r"sample 0: .*told.*fetches of \[1\] still ran"):
        data.__getitems__([0, 1])
    never.set()


# Time-outs ---------------------------------------------------------------------------------------


def hanging(*hung):
    """Some indices that hang until the event comes."""
    never = threading.Event()

    def made(index):
        if index in hung:
            never.wait(120)
        return index

    return made, never


@pytest.mark.parametrize("threads", [1, 4])
def test_a_sample_that_takes_too_long_is_named_with_the_limit(threads):
    made, never = hanging(2)
    data = Concurrent(Squares(made), threads=threads, timeout=0.02)
    with pytest.raises(SampleError, match=r"sample 2: .*no answer within 0.02 s"):
        data.__getitems__([0, 1, 2, 3])
    never.set()


def test_a_thread_that_hangs_is_replaced():
    made, never = hanging(0, 1)
    data = Concurrent(Squares(made), threads=2, timeout=0.02, on_error="skip")
    with pytest.warns(UserWarning, match="sample 0 is skipped"):
        assert data.__getitems__([0, 1, 2, 3]) == [2, 3]
    assert data.__getitems__([4, 5, 6]) == [4, 5, 6]
    assert data.failures.indices == [0, 1]
    never.set()
    assert data.__getitems__([0, 1]) == [0, 1]


def test_waiting_for_a_thread_is_not_the_sample_s_time():
    clock, lock = [0.0], threading.Lock()

    def made(index):
        with lock:
            clock[0] += 0.9  # each within its second, all together not
        return index

    data = Concurrent(Squares(made), threads=1, timeout=1.0, clock=lambda: clock[0])
    assert data.__getitems__(list(range(5))) == list(range(5))


# Retries -----------------------------------------------------------------------------------------


class Flaky:
    """Fails so often for each index, then gives it."""

    def __init__(self, times, error=ConnectionResetError):
        self.times, self.error, self.tried = times, error, {}

    def __call__(self, index):
        self.tried[index] = self.tried.get(index, 0) + 1
        if self.tried[index] <= self.times:
            raise self.error(f"attempt {self.tried[index]}")
        return index


def test_a_fetch_is_tried_again_after_pauses_that_double():
    pauses = []
    data = Concurrent(
        Squares(Flaky(3)),
        retries=3,
        backoff=0.5,
        sleep=lambda stopped, seconds: pauses.append(seconds),
    )
    assert data.__getitems__([7]) == [7]
    assert pauses == [0.5, 1.0, 2.0]
    assert data[8] == 8


def test_giving_up_says_how_often_it_was_tried_and_why():
    data = Concurrent(Squares(Flaky(9)), retries=2, backoff=0)
    with pytest.raises(SampleError, match=r"sample 7: .*Reset.*: attempt 3; tried 3 times"):
        data.__getitems__([7])


@pytest.mark.parametrize(
    ("error", "retry", "tried"),
    [
        (ValueError, (OSError,), 1),
        (ValueError, (OSError, ValueError), 3),
        (FileNotFoundError, (OSError,), 1),  # an answer, not a hiccup
        (FileNotFoundError, (FileNotFoundError,), 3),
        (PermissionError, (OSError, FileNotFoundError), 1),
        (TimeoutError, (OSError,), 3),
        (KeyError, (), 1),
    ],
)
def test_only_what_can_pass_is_tried_again(error, retry, tried):
    source = Flaky(9, error)
    with pytest.raises(SampleError):
        Concurrent(Squares(source), retries=2, retry=retry, backoff=0).__getitems__([1])
    assert source.tried == {1: tried}


def test_an_error_elsewhere_ends_the_pauses():
    paused = threading.Event()

    def made(index):
        if index == 0:
            paused.wait(60)
            raise ValueError("told")
        raise ConnectionResetError

    def sleep(stopped, seconds):
        paused.set()
        assert stopped.wait(60)  # for thirty seconds, would be the real one

    data = Concurrent(Squares(made), threads=2, retries=9, backoff=30, sleep=sleep)
    with pytest.raises(SampleError, match="told"):
        data.__getitems__([0, 1])


@pytest.mark.filterwarnings("ignore:sample 1 is skipped")
def test_a_sample_that_took_too_long_is_not_tried_again_behind_ones_back():
    source, over = Flaky(9999), threading.Event()

    def sleep(stopped, seconds):
        assert stopped.wait(60)  # nothing else ends the pause: the batch goes on without it
        over.set()

    data = Concurrent(
        Squares(lambda index: source(index) if index else 0),
        **{"threads": 2, "on_error": "skip", "timeout": 0.05, "retries": 1000, "sleep": sleep},
    )
    assert data.__getitems__([0, 1]) == [0]
    assert over.wait(60)
    data.close()
    assert source.tried == {1: 1}


# Interrupts and ends -----------------------------------------------------------------------------


def test_an_interrupt_comes_through_when_the_fetches_have_ended():
    begun, ended = threading.Barrier(2), []

    def made(index):
        begun.wait(60)
        if index == 0:
            os.kill(os.getpid(), signal.SIGINT)
        ended.append(index)
        return index

    with pytest.raises(KeyboardInterrupt):
        Concurrent(Squares(made), threads=2).__getitems__([0, 1])
    assert sorted(ended) == [0, 1]


def test_an_interrupt_raised_by_the_dataset_is_no_failed_sample():
    def made(index):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Concurrent(Squares(made), on_error="skip").__getitems__([0, 1])


def test_a_killed_worker_is_an_error_and_not_a_hang(in_python):
    """Nothing catches it: torch's signal handler may raise anywhere, also in an `except`."""
    said = in_python(
        """
        import os, signal
        from torch.utils.data import DataLoader
        from hotlap.data.concurrent import Concurrent

        class Deadly(list):
            def __getitem__(self, index):
                if index == 20:
                    os.kill(os.getpid(), signal.SIGKILL)
                return index

        list(DataLoader(Concurrent(Deadly(range(64))), 8, num_workers=1))
        """,
        fails=True,
    )
    assert "Traceback" in said  # and no more: the handler may break off its printing, too


def test_threads_keep_nothing_of_the_last_batch():
    class Sample:
        pass

    data = Concurrent(Squares(lambda index: Sample()), threads=2)
    samples = data.__getitems__([1, 2, 3])
    seen = [weakref.ref(sample) for sample in samples]
    del samples
    data.close()  # a thread drops its job only after the batch has its samples
    assert [one() for one in seen] == [None] * 3
    assert len(data.__getitems__([1])) == 1  # also closed, it fetches


def test_threads_go_with_the_dataset():
    before = set(fetching())
    data = Concurrent([1, 2, 3])
    data.__getitems__([0, 1, 2])
    mine = set(fetching()) - before
    assert mine
    del data
    for thread in mine:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("hangs", [False, True])
def test_the_interpreter_ends_with_idle_and_with_hanging_threads(in_python, hangs):
    said = in_python(
        """
        import sys, threading
        from hotlap.data.concurrent import Concurrent

        class Hangs(list):
            def __getitem__(self, index):
                if index == 1 and sys.argv[1] == "True":
                    threading.Event().wait()
                return index

        data = Concurrent(Hangs([0, 1, 2]), timeout=0.05)
        try:
            print(data.__getitems__([0, 1, 2]))
        except RuntimeError as error:
            print(str(error).splitlines()[0])
        """,
        str(hangs),
    )
    assert said.strip() == (
        "sample 1: TookTooLong: no answer within 0.05 s (timeout)" if hangs else "[0, 1, 2]"
    )


@FORKED_THREADS
def test_a_forked_child_ends_though_its_parent_has_threads():
    data = Concurrent(Squares())
    data.__getitems__([1, 2, 3])
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if data.__getitems__([2, 3]) == [4, 9] else 1)
        finally:
            os._exit(2)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.001)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
