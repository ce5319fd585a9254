"""What loader workers count: each in a row of its own, seen by all."""

import copy
import pickle

import pytest
from counted import Counted
from torch.utils.data import DataLoader

from hotlap.data.counting import Counts


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_add_up_in_rows_of_their_own(context):
    data = Counted()
    data[7]
    list(DataLoader(data, batch_size=5, num_workers=2, multiprocessing_context=context))
    assert data.counts.table.sum(0).tolist() == [0, 41, 7 + sum(range(40))]
    assert data.counts.table[:3, 1].tolist() == [1, 20, 20]
    assert data.counts.own().tolist() == [0, 1, 7]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_counts_for_itself(again):
    counts = Counts(2)
    counts.add(0)
    other = again(counts)
    other.add(0)
    other.add(1, 5)
    assert counts.table.sum(0).tolist() == [1, 0]
    assert other.table.sum(0).tolist() == [2, 5]


def test_a_table_that_is_emptied_counts_on():
    counts = Counts(1)
    counts.add(0)
    counts.table.zero_()
    counts.add(0)
    assert counts.table.sum().item() == 1
