"""measure: what a dataset takes, by a clock that only the dataset moves."""

import random

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

from hotlap.data.timing import measure

MACHINE = {"cores": 8, "ram": 64 << 30, "shm": 16 << 30, "cuda": True}


class Slow(Dataset):
    """Every sample takes its time on the clock; the first one opens a file."""

    def __init__(self, seconds, length=1000, sample=None):
        self.now, self.seconds, self.length = 0.0, seconds, length
        self.sample = torch.zeros(1000) if sample is None else sample
        self.asked = []

    def clock(self):
        return self.now

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.now += self.seconds if self.asked else 100.0
        self.asked.append(index)
        return self.sample


def timed(data, batch_size=50, **options):
    given = {"step_seconds": 0.25, "seconds": 1000.0, **MACHINE, **options}
    return measure(data, batch_size, clock=data.clock, cpu_clock=data.clock, **given)


def test_samples_are_timed_and_the_first_batch_is_not():
    found = timed(Slow(10e-3))
    assert "a batch takes 500 ms to make" in found.reason
    assert found.workers == 3


def test_samples_come_from_all_over_the_dataset_and_none_twice():
    data = Slow(10e-3)
    timed(data, batches=3)
    assert len(data.asked) == len(set(data.asked)) == 200
    assert max(data.asked) > 900


def test_a_slow_dataset_is_timed_for_so_long_and_no_longer():
    data = Slow(1.0)
    timed(data, seconds=10.0)
    assert len(data.asked) == 100  # to warm up, and one


def test_a_dataset_smaller_than_a_batch_is_timed_too():
    assert "1.28 s to make" in timed(Slow(10e-3, length=3), batch_size=128).reason


def test_batches_are_made_as_torch_makes_them():
    class AllAtOnce(Slow):
        def __getitems__(self, indices):
            self.now += 1e-6
            return [self.sample for _ in indices]

    assert timed(AllAtOnce(10e-3)).workers == 0


def test_samples_that_are_no_tensors_are_pickled():
    data = Slow(10e-3, sample=b"x" * 1000)
    assert timed(data, collate_fn=list, shm=0).workers == 3
    assert timed(Slow(10e-3), shm=0).workers == 0


def test_random_numbers_go_on_as_if_nothing_had_been_timed():
    class Random(Slow):
        def __getitem__(self, index):
            return super().__getitem__(index) + torch.rand(1) + random.random()

    torch.manual_seed(0)
    random.seed(0)
    expected = torch.rand(1).item(), random.random()
    torch.manual_seed(0)
    random.seed(0)
    timed(Random(10e-3))
    assert (torch.rand(1).item(), random.random()) == expected


def test_streams_and_empty_datasets_are_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(TypeError, match="Stream is an IterableDataset"):
        measure(Stream(), 4, step_seconds=0.1)
    with pytest.raises(ValueError, match="nothing to time"):
        timed(Slow(0.1, length=0))


@pytest.mark.parametrize(("batch_size", "step_seconds"), [(0, 0.1), (4, float("nan")), (4, "fast")])
def test_nonsense_is_refused_before_anything_is_timed(batch_size, step_seconds):
    with pytest.raises(ValueError, match=r"(batch_size|step_seconds) is"):
        measure([], batch_size, step_seconds=step_seconds)
