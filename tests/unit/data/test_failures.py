"""Samples that cannot be made are named, or counted: never lost in silence."""

import copy
import functools
import pickle

import pytest
import torch
from numbers_kept import MB
from torch.utils.data import DataLoader

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
    with pytest.raises(ValueError, match="'ignore'; it can be 'raise' or 'skip'"):
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
