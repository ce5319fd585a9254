"""The memory tier: shared, never over its budget, safe against deaths."""

import multiprocessing
import os
import pickle
import signal
import threading
from dataclasses import replace

import pytest

from hotlap.data.arena import Arena, attach

FORK = multiprocessing.get_context("fork")


def in_child(work):
    """Runs it in a forked process; its exit code."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_is_put_is_there_once():
    arena = Arena(4, 10_000)
    assert arena.get(2) is None
    assert arena.put(2, b"sample")
    assert bytes(arena.get(2)) == b"sample"
    assert not arena.put(2, b"another")
    assert bytes(arena.get(2)) == b"sample"
    assert arena.count() == 1


def test_the_budget_is_never_passed():
    arena = Arena(1000, 50_000)
    taken = [index for index in range(1000) if arena.put(index, bytes(index % 700 + 1))]
    assert 50 < len(taken) < 1000
    assert arena.used <= 50_000
    assert all(len(arena.get(index)) == index % 700 + 1 for index in taken)
    assert os.fstat(arena._descriptor).st_size <= 50_000


@pytest.mark.parametrize("budget", [0, 10, 64])
def test_a_budget_too_small_for_anything_takes_nothing(budget):
    arena = Arena(10, budget)
    assert not arena.has_room(1)
    assert not arena.put(0, b"x" * 100)
    assert arena.get(0) is None


def test_an_index_out_of_range_is_no_other_sample():
    arena = Arena(3, 1000)
    for index in (-1, 3):
        with pytest.raises(IndexError, match=f"sample {index} of 3"):
            arena.get(index)


def test_what_a_forked_process_puts_is_seen_by_all():
    arena = Arena(4, 10_000)
    assert in_child(lambda: arena.put(1, b"from the child")) == 0
    assert bytes(arena.get(1)) == b"from the child"


def test_a_pickled_one_is_the_same_memory():
    arena = Arena(4, 10_000)
    other = pickle.loads(pickle.dumps(arena))
    other.put(3, b"through proc")
    assert bytes(arena.get(3)) == b"through proc"


def test_memory_of_a_process_that_is_gone_is_a_clear_error():
    gone = replace(Arena(4, 10_000).handle, pid=2**22 + 1)
    with pytest.raises(RuntimeError, match="cannot be reached"):
        attach(gone)


def test_two_processes_filling_the_same_slots_agree():
    arena, processes = Arena(200, 1 << 20), []

    def fill(mark):
        for index in range(200):
            arena.put(index, bytes([mark]) * (index + 1))

    for mark in (1, 2, 3):
        process = FORK.Process(target=fill, args=(mark,))
        process.start()
        processes.append(process)
    for process in processes:
        process.join()
    for index in range(200):
        found = bytes(arena.get(index))
        assert len(found) == index + 1
        assert len(set(found)) == 1
    assert arena.used <= 1 << 20


def test_a_writer_that_is_killed_holds_up_nobody():
    arena = Arena(4, 10_000)

    def killed():
        with arena._locked():
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(killed) == -signal.SIGKILL
    assert arena.put(0, b"goes on")


def test_a_fork_while_a_thread_holds_the_lock_does_not_hang():
    arena, inside, done = Arena(4, 10_000), threading.Event(), threading.Event()

    def hold():
        with arena._lock:
            inside.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    assert in_child(lambda: arena.put(0, b"x")) == 0
    done.set()
    thread.join()


def test_filling_can_be_ended_for_all():
    arena = Arena(4, 10_000)
    arena.put(0, b"before")
    assert arena.close_filling()
    assert not arena.close_filling()
    assert not arena.put(1, b"after")
    assert not arena.has_room(1)
    assert bytes(arena.get(0)) == b"before"
