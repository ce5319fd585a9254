"""Order: the same samples for the same seed and epoch, each rank its share, from any place on."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset

from hotlap.data.order import Drawn, Order, seeded

LENGTHS = st.integers(0, 60)


def drawn(length, *, epoch=0, consumed=0, **options):
    order = Order(length, **options)
    order.load_state_dict({**order.state_dict(), "epoch": epoch, "consumed": consumed})
    return list(order)


@settings(deadline=None)
@given(LENGTHS, st.integers(-3, 2**40), st.integers(0, 9))
def test_an_epoch_is_a_permutation_that_seed_and_epoch_alone_decide(length, seed, epoch):
    order = Order(range(length), seed=seed)
    for earlier in range(epoch):
        order.set_epoch(earlier)
        list(order)
    order.set_epoch(epoch)
    torch.rand(1)
    assert list(order) == list(order) == drawn(length, seed=seed, epoch=epoch)
    assert sorted(order) == list(range(length))
    assert len(order) == length


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = [drawn(50, seed=seed, epoch=epoch) for seed in range(3) for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 9


def test_without_shuffling_the_order_is_that_of_the_data():
    assert drawn(5, shuffle=False, epoch=3) == [0, 1, 2, 3, 4]
    assert drawn(5, shuffle=False, consumed=3) == [3, 4]


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 7), st.booleans())
def test_ranks_share_the_samples_evenly(length, size, drop_last):
    orders = [Order(length, rank=r, world_size=size, drop_last=drop_last) for r in range(size)]
    shares = [list(order) for order in orders]
    assert {len(share) for share in shares} == {len(orders[0])}
    together = [index for share in shares for index in share]
    if drop_last:
        assert len(set(together)) == len(together) == length // size * size
    else:
        assert set(together) == set(range(length))
        assert len(together) - length < size


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 5), st.integers(1, 5), st.integers(0, 60))
def test_another_number_of_ranks_takes_up_what_is_left(length, before, after, batches):
    whole = drawn(length)
    consumed = min(batches, -(-length // before)) * before
    shares = [drawn(length, consumed=consumed, rank=r, world_size=after) for r in range(after)]
    left = [index for turn in zip(*shares, strict=True) for index in turn]
    assert left[: max(0, length - consumed)] == whole[consumed:]
    assert len(left) - max(0, length - consumed) < after


def test_a_state_of_other_data_is_refused():
    state = Order(10, seed=1).state_dict()
    with pytest.raises(ValueError, match="length=10, and this order has length=11"):
        Order(11, seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="seed=1"):
        Order(10, seed=2).load_state_dict(state)
    with pytest.raises(ValueError, match="no state of an Order"):
        Order(10).load_state_dict({"epoch": 1})


def test_a_loop_that_begins_at_zero_after_a_resume_is_refused():
    order = Order(10)
    order.load_state_dict({**order.state_dict(), "epoch": 3, "consumed": 4})
    order.set_epoch(3)
    assert order.consumed == 4
    with pytest.raises(ValueError, match=r"range\(loader\.epoch"):
        order.set_epoch(0)
    with pytest.warns(UserWarning, match="last 6 samples are skipped"):
        order.set_epoch(4)
    assert (order.epoch, order.consumed) == (4, 0)
    order.set_epoch(0)


def test_a_stream_of_samples_is_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(TypeError, match="Stream is an IterableDataset"):
        Order(Stream())


@pytest.mark.parametrize("options", [{"rank": 2, "world_size": 2}, {"rank": -1}])
def test_ranks_that_are_not_there_are_refused(options):
    with pytest.raises(ValueError, match="rank"):
        Order(10, **options)


class Dice:
    """Draws a random number for a sample."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        assert isinstance(index, Drawn)
        generator = seeded(7, index.epoch, index)
        return index, index.epoch, torch.randint(1 << 40, (), generator=generator).item()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_random_numbers_of_a_sample_are_the_same_in_any_worker(workers):
    order = Order(Dice(), with_epoch=True)
    options = {"persistent_workers": True} if workers else {}
    loader = DataLoader(Dice(), batch_size=5, sampler=order, num_workers=workers, **options)
    thrown = {}
    for epoch in range(2):
        order.set_epoch(epoch)
        for indices, epochs, numbers in loader:
            assert set(epochs.tolist()) == {epoch}
            for index, number in zip(indices.tolist(), numbers.tolist(), strict=True):
                thrown[epoch, index] = number
    known = {
        (epoch, index): torch.randint(1 << 40, (), generator=seeded(7, epoch, index)).item()
        for epoch in range(2)
        for index in range(12)
    }
    assert thrown == known
    assert len(set(thrown.values())) == 24


@pytest.mark.parametrize("seed", ["a", 1.5, None])
def test_a_seed_that_is_no_number_is_refused(seed):
    with pytest.raises(TypeError, match=r"seed is .*; it is a whole number"):
        Order(5, seed=seed)


def test_a_state_that_is_none_is_refused():
    with pytest.raises(TypeError, match="the state is None; it is what state_dict"):
        Order(5).load_state_dict(None)


@pytest.mark.parametrize(
    "wrong", [{"consumed": -1}, {"epoch": -1}, {"consumed": 2.5}, {"epoch": "a"}, {"epoch": None}]
)
def test_a_place_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="no state of an Order"):
        Order(5).load_state_dict({**Order(5).state_dict(), **wrong})
