"""The tiered cache where samples are asked for in odd ways, or some are of odd kinds."""

import collections

import numpy
import pytest
import torch
from numbers_kept import MB, Numbers
from torch.utils.data import DataLoader

from hotlap.data.packing import CannotPack
from hotlap.data.tiered import Tiered

ORDER = torch.randperm(40, generator=torch.Generator().manual_seed(0))
BATCHES = {
    "tensors": ORDER.split(8),
    "arrays": [one.numpy() for one in ORDER.split(8)],
    "tuples": [tuple(one.tolist()) for one in ORDER.split(8)],
    "numpy's numbers": [list(numpy.array(one.tolist())) for one in ORDER.split(8)],
}


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
def test_a_batch_sampler_may_yield_batches_of_any_kind(batches):
    cached = Tiered(Numbers(), ram=MB)
    for _ in range(2):
        loader = DataLoader(cached, batch_sampler=batches)
        assert [int(x[0]) for rows, _ in loader for x in rows] == ORDER.tolist()
    assert cached.hits()["ram"] == 40


def test_a_batch_may_be_an_iterator():
    cached = Tiered(Numbers(), ram=MB)
    assert [label for _, label in cached.__getitems__(iter([3, 4]))] == [1, 0]


class Sized(Numbers):
    """Samples beyond its length as well, and of a size that comes with the index."""

    def __getitem__(self, index):
        index, size = index if isinstance(index, tuple) else (index, 2)
        if index >= 100:
            raise IndexError(index)
        return torch.full((size,), index)


class Together(Sized):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


@pytest.mark.parametrize("kind", [Sized, Together])
@pytest.mark.parametrize("odd", [(3, 5), 70], ids=["a pair", "beyond the end"])
def test_what_is_no_number_of_a_sample_is_passed_on_where_that_is_wanted(odd, kind):
    source = kind()
    cached = Tiered(source, ram=MB, strict=False)
    with pytest.warns(UserWarning, match="is none of the 40 samples; such samples are not"):
        assert torch.equal(cached[odd], source[odd])
    first, second = cached.__getitems__([2, odd])  # it is said once
    assert torch.equal(first, source[2])
    assert torch.equal(second, source[odd])
    assert cached.passed_on == 3
    assert cached.outdated() is None


@pytest.mark.parametrize(("odd", "problem"), [((3, 5), TypeError), (70, IndexError)])
def test_else_it_raises(odd, problem):
    with pytest.raises(problem):
        Tiered(Sized(), ram=MB)[odd]


@pytest.mark.parametrize("strict", [True, False])
def test_a_plain_loop_over_it_ends(strict):
    cached = Tiered(Numbers(), ram=MB, strict=strict)
    assert len(list(cached)) == 40
    assert cached.passed_on == 0


class Mixed(Numbers):
    def __getitem__(self, index):
        return collections.OrderedDict(x=index) if index == 13 else {"x": index}


def test_a_sample_that_cannot_be_kept_is_passed_on_where_that_is_wanted():
    cached = Tiered(Mixed(), ram=MB, strict=False)
    with pytest.warns(UserWarning, match=r"sample 13: .*OrderedDict.*come from the data set"):
        assert type(cached[13]) is collections.OrderedDict
    for _ in range(2):
        assert [cached[index]["x"] for index in range(40)] == list(range(40))
    assert cached.passed_on == 3
    assert cached.hits()["ram"] == 39


def test_else_it_raises_with_its_number():
    with pytest.raises(CannotPack, match=r"sample 13: .*OrderedDict"):
        Tiered(Mixed(), ram=MB)[13]
