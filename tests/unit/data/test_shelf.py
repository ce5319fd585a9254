"""The disk tier: survives restarts, kills, damage and full disks."""

import contextlib
import errno
import json
import multiprocessing
import os
import pickle
import random
import signal

import pytest

from hotlap.data.shelf import ENTRY, Shelf, table_bytes

FORK = multiprocessing.get_context("fork")
SAMPLES = 50


def sample(index):
    return random.Random(index).randbytes(20 + index * 7)


@pytest.fixture
def told():
    return []


@pytest.fixture
def make(tmp_path, told):
    def shelf(samples=SAMPLES, budget=1 << 20, **facts):
        facts = {"dataset": "photos", **facts}
        return Shelf(tmp_path / "cache", samples, budget, facts=facts, tell=told.append)

    return shelf


def fill(shelf, indices=range(SAMPLES)):
    return [shelf.put(index, sample(index)) for index in indices]


def right(shelf):
    """How many samples are there; each must be what was put."""
    found = {index: shelf.get(index) for index in range(SAMPLES)}
    assert all(packed in (None, sample(index)) for index, packed in found.items())
    return sum(packed is not None for packed in found.values())


def test_what_was_kept_is_there_after_a_restart(make, told):
    assert all(fill(make()))
    again = make()
    assert right(again) == again.count() == SAMPLES
    assert told == []


def test_a_sample_is_kept_once(make):
    shelf = make()
    fill(shelf)
    used = shelf.used
    assert not any(fill(shelf))
    assert shelf.used == used


def before_the_lock(monkeypatch, shelf, other):
    """What another process did while this one waited for the lock."""
    locked = shelf._locked

    @contextlib.contextmanager
    def waited():
        monkeypatch.setattr(shelf, "_locked", locked)
        other()
        with locked():
            yield

    monkeypatch.setattr(shelf, "_locked", waited)


def test_two_writers_of_a_sample_take_room_for_one(make, monkeypatch):
    first, second = make(), make()
    before_the_lock(monkeypatch, first, lambda: second.put(3, sample(3)))
    assert not first.put(3, sample(3))
    assert first.used == second.used == make(budget=1 << 19).used
    assert os.fstat(first._data).st_size == len(sample(3))
    assert first.get(3) == sample(3)


def test_an_entry_that_is_being_written_is_not_taken_for_a_damaged_one(make, monkeypatch, told):
    shelf = make()
    shelf.put(3, sample(3))
    whole = os.pread(shelf._index, ENTRY.size, ENTRY.size * 3)
    os.pwrite(shelf._index, bytes(ENTRY.size - 16), ENTRY.size * 3 + 16)  # half of it is there
    before_the_lock(monkeypatch, shelf, lambda: os.pwrite(shelf._index, whole, ENTRY.size * 3))
    assert shelf.get(3) == sample(3)
    assert told == []


def on_disk(folder):
    return sum(one.stat().st_size for one in folder.iterdir())


@pytest.mark.parametrize("about", ["", "a long text " * 1000])
def test_the_budget_is_never_passed_by_all_files_together(make, tmp_path, about):
    shelf = make(budget=table_bytes(SAMPLES) + 3000, about=about)
    taken = fill(shelf)
    assert any(taken)
    assert not all(taken)
    assert on_disk(tmp_path / "cache") == shelf.used <= shelf.budget
    assert right(shelf) == sum(taken)


def test_a_smaller_budget_keeps_what_it_has_room_for_and_says_so(make, tmp_path, told):
    fill(make())
    small = table_bytes(SAMPLES) + 3000
    shelf = make(budget=small)
    assert on_disk(tmp_path / "cache") == shelf.used <= small
    assert 0 < right(shelf) == shelf.count() < SAMPLES
    assert len(told) == 1
    assert "samples were removed" in told[0]
    assert right(make(budget=small)) == right(shelf)
    assert len(told) == 1


def test_who_has_a_larger_budget_makes_anew_what_a_smaller_one_removed(make):
    large = make()
    fill(large)
    make(budget=table_bytes(SAMPLES) + 3000)
    assert right(large) < SAMPLES
    fill(large)
    assert right(large) == SAMPLES


@pytest.mark.parametrize("budget", [0, 10])
def test_a_budget_too_small_for_anything_takes_nothing(make, budget):
    assert not any(fill(make(budget=budget)))


def test_another_data_set_begins_anew_and_it_is_said(make, told):
    fill(make())
    other = make(dataset="drawings")
    assert other.count() == 0
    assert len(told) == 1
    assert "begun anew" in told[0]
    assert right(other) == 0


def test_a_folder_that_holds_something_else_is_said(make, tmp_path, told):
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "data").write_bytes(b"letters of my grandmother" * 9)
    shelf = make()
    assert told == [f"{folder} held files of something else; the cache is begun anew"]
    assert right(shelf) == 0


def test_who_has_the_old_files_open_is_not_harmed_by_a_new_beginning(make):
    old = make()
    fill(old)
    make(dataset="drawings")
    assert right(old) == SAMPLES


@pytest.mark.parametrize("seed", range(100))
def test_random_damage_is_detected_or_harmless(make, tmp_path, seed):
    fill(make())
    chance = random.Random(seed)
    name = chance.choice(["data", "index", "facts.json"])
    file = tmp_path / "cache" / name
    content = bytearray(file.read_bytes())
    how = chance.choice(["flip", "cut", "zero", "garbage"])
    at = chance.randrange(len(content))
    if how == "flip":
        content[at] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del content[at:]
    elif how == "zero":
        content[at : at + 64] = bytes(min(64, len(content) - at))
    else:
        content[at : at + 64] = chance.randbytes(min(64, len(content) - at))
    file.write_bytes(content)
    shelf = make()
    assert right(shelf) <= SAMPLES
    fill(shelf)
    assert right(shelf) == SAMPLES  # what was lost is made anew
    assert right(make()) == SAMPLES


@pytest.mark.parametrize("name", ["index", "data"])
@pytest.mark.parametrize("size", [0, 100])
def test_a_file_that_is_cut_off_while_in_use_loses_what_was_in_it_and_no_more(
    make, tmp_path, name, size
):
    shelf = make(samples=5000)
    fill(shelf)
    os.truncate(tmp_path / "cache" / name, size)
    assert shelf.get(4000) is None
    assert right(shelf) < SAMPLES
    fill(shelf)
    assert right(shelf) == SAMPLES
    assert shelf.count() == SAMPLES


def test_damage_is_said_once(make, tmp_path, told):
    fill(make())
    data = tmp_path / "cache" / "data"
    data.write_bytes(bytes(data.stat().st_size))
    shelf = make()
    assert right(shelf) == 0
    assert len(told) == 1
    assert "is damaged" in told[0]


def test_a_writer_that_is_killed_leaves_nothing_wrong(make):
    shelf = make()
    fill(shelf, range(10))
    child = os.fork()
    if not child:
        shelf._write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        shelf.put(20, sample(20))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert right(shelf) == 10
    assert shelf.put(20, sample(20))
    assert right(make()) == 11


def test_two_processes_fill_at_once(make):
    processes = [FORK.Process(target=fill, args=(make(),)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert right(make()) == SAMPLES


def test_a_full_disk_ends_the_filling_and_is_said_once(make, told, monkeypatch):
    shelf = make()
    fill(shelf, range(10))

    def full(descriptor, where, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert not any(fill(shelf))
    assert len(told) == 1
    assert "is full" in told[0]
    assert right(shelf) == 10


def test_a_pickled_one_opens_the_same_files(make):
    shelf = make()
    fill(shelf, range(5))
    other = pickle.loads(pickle.dumps(_quiet(shelf)))
    assert right(other) == 5
    other.put(7, sample(7))
    assert shelf.get(7) == sample(7)


def _quiet(shelf):
    shelf._tell = print
    return shelf


def test_an_entry_that_points_elsewhere_is_not_believed(make, tmp_path):
    fill(make())
    index = tmp_path / "cache" / "index"
    content = bytearray(index.read_bytes())
    first, second = content[: ENTRY.size], content[ENTRY.size : 2 * ENTRY.size]
    content[: ENTRY.size] = second  # a valid entry in the wrong place
    index.write_bytes(content)
    shelf = make()
    assert shelf.get(1) == sample(1)
    assert shelf.get(0) in (None, sample(0))
    assert first != second


def test_facts_are_readable(make, tmp_path):
    make()
    facts = json.loads((tmp_path / "cache" / "facts.json").read_text())
    assert facts == {"schema": 2, "samples": SAMPLES, "dataset": "photos"}


def test_long_facts_are_kept_apart_by_their_sum(make, tmp_path, told):
    long = "text " * 1000
    fill(make(about=long))
    assert (tmp_path / "cache" / "facts.json").stat().st_size < len(long)
    assert right(make(about=long)) == SAMPLES
    assert told == []
    assert right(make(about=long + "more")) == 0
