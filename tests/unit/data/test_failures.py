"""Samples that cannot be made are named, or counted: never lost in silence."""

import pytest
import torch

from hotlap.data.failures import Failures, SampleError, failure


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
