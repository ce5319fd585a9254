"""Concurrent: batches fetched by threads, in order, with every failure told."""

import copy
import pickle
import threading

import pytest
import torch
from squares import Squares, Together
from torch.utils.data import DataLoader, IterableDataset, Subset

from hotlap.data.concurrent import Concurrent
from hotlap.data.failures import SampleError

FORKED_THREADS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_what_it_gave_without(workers):
    plain = DataLoader(Squares(), batch_size=10, num_workers=workers)
    wrapped = DataLoader(Concurrent(Squares(), threads=4), batch_size=10, num_workers=workers)
    assert [batch.tolist() for batch in wrapped] == [batch.tolist() for batch in plain]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_kind_make_their_own_threads(method):
    data = Concurrent(list(range(20)), threads=3)
    loader = DataLoader(data, 5, num_workers=1, multiprocessing_context=method)
    assert torch.cat(list(loader)).tolist() == list(range(20))


@FORKED_THREADS
def test_a_fork_does_not_carry_the_threads_over():
    data = Concurrent(Squares(), threads=4)
    assert data.__getitems__([1, 2, 3]) == [1, 4, 9]
    loader = DataLoader(data, 8, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        assert torch.cat(list(loader)).tolist() == [index * index for index in range(64)]
    assert data.__getitems__([4]) == [16]


def test_all_samples_of_a_batch_are_fetched_at_once():
    barrier = threading.Barrier(8)

    def made(index):
        barrier.wait(60)  # passes only when eight are here
        return index

    assert Concurrent(Squares(made), threads=8).__getitems__(list(range(8))) == list(range(8))


def test_never_more_threads_than_asked_for():
    lock, now, most = threading.Lock(), [0], [0]
    pair = threading.Barrier(2)

    def made(index):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        pair.wait(60)
        with lock:
            now[0] -= 1
        return index

    Concurrent(Squares(made), threads=2).__getitems__(list(range(10)))
    assert most == [2]


def test_order_is_kept_whatever_comes_first():
    turns = [threading.Event() for _ in range(9)]
    turns[8].set()

    def made(index):
        turns[index + 1].wait(60)  # the last comes first
        turns[index].set()
        return index

    assert Concurrent(Squares(made), threads=8).__getitems__(list(range(8))) == list(range(8))


def test_the_same_index_twice_and_an_empty_batch():
    data = Concurrent(Squares())
    assert data.__getitems__([3, 3, 1]) == [9, 9, 1]
    assert data.__getitems__([]) == []


def test_indices_of_every_kind_reach_the_dataset_as_they_are():
    seen = []
    indices = ["a", (1, 2), torch.tensor(3), slice(0, 2), -1, True, None]
    data = Concurrent(Squares(lambda index: seen.append(index) or index), threads=1)
    assert data.__getitems__(tuple(indices)) == indices
    assert all(any(one is index for one in seen) for index in indices)


def test_errors_may_be_samples():
    sample = ValueError("a sample")
    assert Concurrent([sample, sample]).__getitems__([0, 1]) == [sample, sample]


def test_a_plain_loop_over_it_ends():
    assert list(Concurrent([1, 2, 3])) == [1, 2, 3]


# A dataset with __getitems__ of its own ----------------------------------------------------------


def test_a_dataset_that_takes_batches_gets_one_chunk_for_each_thread():
    data = Together()
    assert Concurrent(data, threads=4).__getitems__(list(range(10))) == [i * i for i in range(10)]
    assert sorted(data.asked) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_a_subset_is_fetched_concurrently_too():
    barrier = threading.Barrier(4)
    data = Subset(Squares(lambda index: (barrier.wait(60), index)[1]), [9, 8, 7, 6])
    assert Concurrent(data, threads=4).__getitems__([0, 1, 2, 3]) == [9, 8, 7, 6]


def test_a_failing_chunk_is_searched_for_the_one_that_failed():
    def made(index):
        if index == 5:
            raise ValueError("five")
        return index

    with pytest.raises(SampleError, match="sample 5: ValueError: five"):
        Concurrent(Together(made), threads=2).__getitems__(list(range(8)))
    data = Concurrent(Together(made), threads=2, on_error="skip")
    with pytest.warns(UserWarning, match="sample 5"):
        assert data.__getitems__(list(range(8))) == [0, 1, 2, 3, 4, 6, 7]
    assert (data.failures.count, data.failures.indices) == (1, [5])


def test_a_dataset_that_loses_samples_is_told_on():
    class Loses(Together):
        def __getitems__(self, indices):
            return super().__getitems__(indices)[1:]

    with pytest.raises(SampleError, match="gave 0 samples for 1 indices"):
        Concurrent(Loses(), threads=8).__getitems__([1, 2])


# Looking like the dataset inside -----------------------------------------------------------------


def test_attributes_are_read_from_and_written_to_the_dataset():
    inner = Squares()
    data = Concurrent(inner)
    assert (data.length, len(data), data[3]) == (64, 64, 9)
    data.made = lambda index: -index
    assert inner.made(3) == -3
    assert data.__getitems__([3]) == [-3]
    with pytest.raises(AttributeError, match="nothing"):
        _ = data.nothing


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))], ids=["copy", "pickle"]
)
def test_copies_have_threads_of_their_own(again):
    data = Concurrent([4, 5, 6], threads=2, retries=1)
    data.__getitems__([0, 1])
    other = again(data)
    assert other.__getitems__([2, 0]) == [6, 4]
    assert other._crew.get() is not data._crew.get()


def test_what_has_no_indices_is_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([1])

    for dataset in (Stream(), iter([1])):
        with pytest.raises(TypeError, match=f"{type(dataset).__name__} has no samples"):
            Concurrent(dataset)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threads": 0}, "threads is 0"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"retries": -1}, "retries is -1"),
        ({"timeout": 0}, "timeout is 0"),
        ({"backoff": -1.0}, "backoff is -1.0"),
        ({"retry": OSError}, "retry is <class 'OSError'>"),
        ({"retry": (KeyboardInterrupt,)}, "KeyboardInterrupt"),
    ],
)
def test_wrong_options_are_named_with_their_value(options, said):
    with pytest.raises((ValueError, TypeError), match=said):
        Concurrent([1], **options)


@pytest.mark.parametrize("wrong", [{"timeout": "3"}, {"backoff": "1"}, {"timeout": 0}])
def test_times_that_are_none_are_named(wrong):
    with pytest.raises(ValueError, match="it is seconds"):
        Concurrent(Squares(), **wrong)
