"""Resumable: stopped anywhere and taken up again, the training sees what it would have seen."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

from hotlap.data.loader import DeviceLoader
from hotlap.data.order import Order
from hotlap.data.resumable import Resumable


class Numbers(Dataset):
    def __init__(self, length, broken=()):
        self.length, self.broken, self.made = length, broken, []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.made.append(index)
        if index in self.broken:
            raise OSError(f"cannot read {index}")
        return index


def loader_of(data, batch_size=4, *, workers=0, seed=0, drop_last=False, **sharing):
    if isinstance(data, int):
        data = Numbers(data)
    order = Order(data, seed=seed, **sharing)
    plain = DataLoader(data, batch_size, sampler=order, num_workers=workers, drop_last=drop_last)
    return Resumable(DeviceLoader(plain, "cpu"))


def train(loader, *, epochs, until=None):
    """What was seen, by epoch, and the state saved then; it may stop after so many batches."""
    seen, batches = {}, 0
    for epoch in range(loader.epoch, epochs):
        seen[epoch] = []
        for batch in loader:
            seen[epoch] += batch.tolist()
            batches += 1
            if batches == until:
                return seen, loader.state_dict()
    return seen, loader.state_dict()


def together(first, second):
    return {
        epoch: first.get(epoch, []) + second.get(epoch, []) for epoch in sorted({*first, *second})
    }


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_stopped_and_resumed_is_the_same_as_straight_on(data):
    length, batch_size = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 9))
    per_epoch = -(-length // batch_size)
    until = data.draw(st.integers(1, 4 * per_epoch))
    straight, _ = train(loader_of(length, batch_size), epochs=4)
    begun, state = train(loader_of(length, batch_size), epochs=4, until=until)
    other = data.draw(st.sampled_from([batch_size, batch_size + 1, 2 * batch_size]))
    resumed = loader_of(length, other)
    resumed.load_state_dict(state)
    rest, _ = train(resumed, epochs=4)
    assert together(begun, rest) == straight
    assert [sorted(epoch) for epoch in straight.values()] == [list(range(length))] * 4


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (1, 2), (2, 1)])
@pytest.mark.parametrize("until", [3, 9, 14])
def test_another_number_of_workers_makes_no_difference(before, after, until):
    straight, _ = train(loader_of(17), epochs=4, until=18)  # 3.5 epochs of 5 batches
    begun, state = train(loader_of(17, workers=before), epochs=4, until=until)
    resumed = loader_of(17, workers=after)
    resumed.load_state_dict(state)
    rest, _ = train(resumed, epochs=4, until=18 - until)
    assert together(begun, rest) == straight


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4), st.data())
def test_every_rank_goes_on_with_its_share(length, size, batch_size, data):
    batches = len(loader_of(length, batch_size, world_size=size))
    until = data.draw(st.integers(1, 2 * batches))
    states = []
    for rank in range(size):
        straight, _ = train(loader_of(length, batch_size, rank=rank, world_size=size), epochs=2)
        first = loader_of(length, batch_size, rank=rank, world_size=size)
        begun, state = train(first, epochs=2, until=until)
        resumed = loader_of(length, batch_size, rank=rank, world_size=size)
        resumed.load_state_dict(state)
        rest, _ = train(resumed, epochs=2)
        assert together(begun, rest) == straight
        states.append(state)
    assert all(state == states[0] for state in states)


def test_a_state_is_loaded_into_workers_that_stay():
    data = Numbers(17)
    options = {"num_workers": 2, "persistent_workers": True}
    loader = Resumable(DataLoader(data, 4, sampler=Order(data), **options))
    straight, _ = train(loader_of(17), epochs=3)
    begun, state = train(loader, epochs=3, until=7)
    next(iter(loader))
    loader.load_state_dict(state)
    rest, _ = train(loader, epochs=3)
    assert together(begun, rest) == straight


def test_no_sample_is_made_for_what_is_skipped():
    _, state = train(loader_of(40), epochs=1, until=8)
    data = Numbers(40)
    resumed = loader_of(data)
    resumed.load_state_dict(state)
    seen, _ = train(resumed, epochs=1)
    assert data.made == seen[0]
    assert len(data.made) == 8


def test_what_workers_made_early_is_not_counted():
    loader = loader_of(40, workers=2)
    batches = iter(loader)
    next(batches)
    assert loader.state_dict()["consumed"] == 4
    assert loader.loader.loader.sampler.consumed == 4


def test_an_incomplete_last_batch_stays_dropped():
    straight, _ = train(loader_of(10, drop_last=True), epochs=3)
    begun, state = train(loader_of(10, drop_last=True), epochs=3, until=4)
    resumed = loader_of(10, drop_last=True)
    resumed.load_state_dict(state)
    rest, _ = train(resumed, epochs=3)
    assert together(begun, rest) == straight
    assert [len(epoch) for epoch in straight.values()] == [8, 8, 8]


def test_a_state_of_the_end_of_an_epoch_begins_the_next_one():
    loader = loader_of(8)
    list(loader)
    state = loader.state_dict()
    assert (state["epoch"], state["consumed"]) == (1, 0)
    resumed = loader_of(8)
    resumed.load_state_dict(state)
    assert (resumed.epoch, len(list(resumed)), resumed.epoch) == (1, 2, 2)


def test_a_state_of_the_last_batch_ends_its_epoch_first():
    _, state = train(loader_of(8), epochs=1, until=2)
    assert (state["epoch"], state["consumed"]) == (0, 8)
    resumed = loader_of(8)
    resumed.load_state_dict(state)
    resumed.set_epoch(0)
    assert [len(list(resumed)), len(list(resumed))] == [0, 2]


def test_epochs_may_be_named_through_the_sampler_too():
    loader, other = loader_of(20), loader_of(20)
    loader.sampler.set_epoch(5)
    other.set_epoch(5)
    assert torch.equal(torch.cat(list(loader)), torch.cat(list(other)))
    assert loader.epoch == 6


def test_an_epoch_that_was_broken_off_is_not_begun_again_unless_it_is_named():
    loader = loader_of(20)
    first = next(iter(loader)).tolist()
    assert loader.epoch == 0
    assert next(iter(loader)).tolist() != first
    assert loader.epoch == 1
    loader.set_epoch(0)
    assert next(iter(loader)).tolist() == first


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iteration_from_before_the_state_was_loaded_does_not_go_on(workers):
    _, state = train(loader_of(20), epochs=1, until=3)
    loader = loader_of(20, workers=workers)
    batches = iter(loader)
    next(batches)
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Call iter\(\) again"):
        next(batches)
    assert len(list(loader)) == 2


def test_asking_for_an_iteration_alone_loses_nothing_that_was_loaded():
    _, state = train(loader_of(20), epochs=1, until=3)
    loader = loader_of(20)
    loader.load_state_dict(state)
    iter(loader)
    assert len(list(loader)) == 2


def test_two_iterations_at_once_have_their_own_order():
    loader = loader_of(20)
    first, second = iter(loader), None
    seen = next(first).tolist()
    second = iter(loader)
    other = next(second).tolist()
    seen += [index for batch in first for index in batch.tolist()]
    other += [index for batch in second for index in batch.tolist()]
    assert (seen, other) == (
        list(Order(20)),
        [index for batch in named_epoch(20, 1) for index in batch.tolist()],
    )


def named_epoch(length, epoch):
    loader = loader_of(length)
    loader.set_epoch(epoch)
    return loader


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_that_failed_counts_when_the_training_goes_on_without_it(workers):
    loader = loader_of(Numbers(20, broken={list(Order(20))[5]}), workers=workers)
    batches = iter(loader)
    next(batches)
    with pytest.raises(OSError, match="cannot read"):
        next(batches)
    assert loader.state_dict()["consumed"] == 4
    if workers:
        assert next(batches).tolist() == list(Order(20))[8:12]
        assert loader.state_dict()["consumed"] == 12


def test_batch_samplers_of_torch_and_none_at_all_are_understood():
    data = Numbers(10)
    by_batches = Resumable(DataLoader(data, batch_sampler=BatchSampler(Order(10), 4, False)))
    one_by_one = Resumable(DataLoader(data, batch_size=None, sampler=Order(10)))
    for loader, consumed in ((by_batches, 4), (one_by_one, 1)):
        next(iter(loader))
        assert loader.state_dict()["consumed"] == consumed


def test_loaders_whose_place_cannot_be_known_are_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    class Lengths(BatchSampler):
        pass

    data = Numbers(10)
    with pytest.raises(TypeError, match="Stream is an IterableDataset"):
        Resumable(DataLoader(Stream()))
    for loader in (
        DataLoader(data, shuffle=True),
        DataLoader(data, batch_sampler=Lengths(Order(10), 4, False)),
    ):
        with pytest.raises(TypeError, match="does not draw from an Order"):
            Resumable(loader)
    unordered = DataLoader(data, sampler=Order(data))
    unordered.in_order = False
    with pytest.raises(ValueError, match="in_order"):
        Resumable(unordered)
    with pytest.raises(TypeError, match=r"Resumable\(DeviceLoader\("):
        DeviceLoader(loader_of(10), "cpu")
