"""Samples that cannot be made are named, or counted: never lost in silence."""

import copy
import functools
import pickle
import threading
import traceback

import pytest
import torch
from numbers_kept import MB
from torch.utils.data import DataLoader

from hotlap.data import batches
from hotlap.data.concurrent import Concurrent
from hotlap.data.failures import Failures, SampleError, failure
from hotlap.data.tiered import Tiered


def test_by_default_the_index_and_the_reason_are_raised():
    with pytest.raises(SampleError, match="sample 7: ValueError: bad") as found:
        Failures().met(7, ValueError("bad"))
    assert isinstance(found.value.__cause__, ValueError)


def test_it_survives_the_way_out_of_a_worker_process():
    """torch makes the error anew from one string."""
    wrapped = torch._utils.ExceptionWrapper(
        (SampleError, failure(7, ValueError("bad")), None), where="in worker 0"
    )
    with pytest.raises(SampleError, match="sample 7: ValueError: bad"):
        wrapped.reraise()


def test_an_error_that_has_its_index_keeps_it():
    inner = failure(7, ValueError("bad"))
    assert failure(8, inner) is inner


def test_skipped_samples_are_counted_and_said_once():
    failures = Failures("skip")
    with pytest.warns(UserWarning, match="sample 3 is skipped"):
        failures.met(3, OSError("gone"))
    for index in range(4, 40):
        failures.met(index, OSError("gone"))  # a second warning would be an error here
    assert failures.count == 37
    assert failures.indices[:3] == [3, 4, 5]


def test_another_policy_is_named():
    with pytest.raises(ValueError, match="'ignore'; it can be 'raise', 'skip' or 'as is'"):
        Failures("ignore")


def test_a_sample_that_fails_in_every_epoch_is_counted_each_time_and_named_once():
    failures = Failures("skip")
    with pytest.warns(UserWarning, match="sample 0 is skipped"):
        failures.met(0, OSError("gone"))
    for index in [5, 0] * 19 + [5]:
        failures.met(index, OSError("gone"))
    assert (failures.count, failures.indices) == (40, [0, 5])
    assert repr(failures) == "Failures(on_error='skip', count=40, indices=[0, 5])"


def test_a_batch_of_which_nothing_is_left_says_why():
    failures = Failures("skip")
    with pytest.warns(UserWarning, match="is skipped"):
        failures.met(3, OSError("gone"))
    assert "(3), the last with sample 3: OSError: gone" in str(failures.nothing_left([3]))
    assert "7 and so on)" in str(failures.nothing_left(range(20)))


class Half:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index % 2:
            raise OSError("gone")
        return index


@pytest.mark.filterwarnings("ignore:.*is skipped", "ignore:This DataLoader will create")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("around", [Concurrent, functools.partial(Tiered, ram=MB)])
def test_a_copy_counts_what_its_workers_do(copied, around):
    data = copied(around(Half(), on_error="skip"))
    assert [int(x) for batch in DataLoader(data, 4, num_workers=2) for x in batch] == [0, 2, 4, 6]
    assert (data.failures.count, data.failures.indices) == (4, [1, 3, 5, 7])
    if isinstance(data, Tiered):
        assert data.hits()["source"] == 4


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("around", [Concurrent, functools.partial(Tiered, ram=MB)])
def test_an_error_of_a_worker_shows_where_it_came_from_once(around):
    with pytest.raises(SampleError, match="sample 1: OSError: gone") as found:
        list(DataLoader(around(Half()), 4, num_workers=1))
    assert str(found.value).count('raise OSError("gone")') == 1


class Told(Exception):
    """One that torch cannot make anew from a single text."""

    def __init__(self, path, reason):
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class Failing:
    def __init__(self, problem):
        self.problem = problem

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            raise self.problem
        return index


class FailingTogether(Failing):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


def outcome(dataset, workers=0):
    """What each batch of two is, or the exception that comes in its place."""
    batches = iter(DataLoader(dataset, 2, num_workers=workers))
    found = []
    for _ in range(4):
        try:
            found.append(next(batches).tolist())
        except BaseException as problem:
            found.append(problem)
    return found


PROBLEMS = [ValueError("corrupt"), KeyError("name"), Told("a.jpg", "cut off"), OSError(2, "gone")]
AROUND = [
    functools.partial(Concurrent, on_error="as is"),
    functools.partial(Tiered, ram=MB, on_error="as is"),
]


@pytest.mark.parametrize("kind", [Failing, FailingTogether])
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("problem", [*PROBLEMS, StopIteration()])
def test_as_it_is_an_exception_is_the_very_one_of_the_data_set(problem, around, kind):
    data = around(kind(problem))
    for _ in range(2):
        found = outcome(data)
        assert found[:2] == [[0, 1], [2, 3]]
        assert found[2] is problem
        assert problem.__cause__ is None
        assert traceback.extract_tb(problem.__traceback__)[-1].line == "raise self.problem"
    with pytest.raises(type(problem)) as told:
        data[5]
    assert told.value is problem


def test_what_is_no_error_of_a_sample_comes_out_of_a_thread_as_it_is():
    problem = KeyboardInterrupt()
    assert outcome(Concurrent(Failing(problem), on_error="as is"))[2] is problem


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_as_it_is_torch_brings_it_out_of_a_worker_as_without_a_wrapper(problem, around):
    plain, wrapped = (
        outcome(one, workers=1) for one in (Failing(problem), around(Failing(problem)))
    )
    assert plain[:2] == wrapped[:2] == [[0, 1], [2, 3]]
    assert type(wrapped[2]) is type(plain[2])
    last = str(plain[2]).splitlines()[-1]
    assert str(wrapped[2]).splitlines()[-1] == last
    assert plain[3] == wrapped[3] == [6, 7]


def test_as_it_is_a_fetch_that_hangs_does_not_hide_it(monkeypatch):
    monkeypatch.setattr(batches, "LINGER_SECONDS", 0.1)
    problem, release = ValueError("corrupt"), threading.Event()

    class Hanging(Failing):
        def __getitem__(self, index):
            if index == 4:
                release.wait(30)
            return super().__getitem__(index)

    data = Concurrent(Hanging(problem), on_error="as is")
    try:
        with pytest.raises(ValueError, match="corrupt") as told:
            data.__getitems__([5, 4])
        assert told.value is problem
    finally:
        release.set()
        data.close()
