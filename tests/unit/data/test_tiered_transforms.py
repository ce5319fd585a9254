"""The tiered cache below a transform that a data set does not use for all its samples alike."""

import os
import random

import pytest
import torch
from numbers_kept import MB, Numbers
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from hotlap.data import packing
from hotlap.data.concurrent import Concurrent
from hotlap.data.epochs import NotCacheable
from hotlap.data.failures import SampleError
from hotlap.data.tiered import Tiered

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
COUNT = 60
ODD = range(3, COUNT, 10)  # of these samples none is looked at first


def shifted(value):
    return value + 100 * (1 + torch.rand(()))


def left_out(value, transform):
    return value


def twice(value, transform):
    transform(value)
    return transform(value)


def worked_on(value, transform):
    return transform(value) * 2


def written_to(value, transform):
    made = transform(value)
    made *= 2
    return made


def copied(value, transform):
    return transform(value).clone()


def needs_it(value, transform):
    made = transform(value)
    if made[0] < 100:
        raise ValueError("this is no sample")
    return made


ODDITIES = (left_out, twice, worked_on, written_to, copied, needs_it)


class Some(Dataset):
    def __init__(self, odd=left_out):
        self.transform, self.odd = shifted, odd

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        value = torch.full((4,), float(index))
        if index in ODD:
            return self.odd(value, self.transform), index
        return self.transform(value), index


class Together(Some):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


def epochs(data, number=3, **options):
    torch.manual_seed(0)
    loader = DataLoader(data, batch_size=10, shuffle=True, **options)
    return [[(x.tolist(), y.tolist()) for x, y in loader] for _ in range(number)]


@pytest.mark.parametrize("kind", [Some, Together])
@pytest.mark.parametrize("odd", ODDITIES)
def test_each_sample_is_what_it_would_be_without_the_cache(odd, kind):
    cached = Tiered(kind(odd), ram=MB)
    assert cached.below.rest
    assert epochs(cached) == epochs(kind(odd))
    kept = COUNT if odd in (left_out, copied) else COUNT - len(ODD)
    assert cached.hits()["ram"] == 2 * kept


@pytest.mark.parametrize("odd", ODDITIES)
def test_the_same_holds_where_the_cache_is_full(odd):
    source = Some(odd)
    cached = Tiered(source, ram=int(Tiered(source, ram=MB).fit.total_bytes / 2))
    assert epochs(cached) == epochs(source)
    assert 0.3 * COUNT < cached.hits()["ram"] / 2 < 0.7 * COUNT


def clean(epoch):
    return {y: x for batch in epoch for x, y in zip(*batch, strict=True) if y in ODD}


CLEAN = {index: [float(index)] * 4 for index in ODD}


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_and_later_runs_find_on_disk_which_samples_are_complete(tmp_path, workers):
    for _ in range(2):
        cached = Tiered(Some(), ram=0, disk=MB, path=tmp_path)
        for epoch in epochs(cached, num_workers=workers):
            assert clean(epoch) == CLEAN
    assert cached.hits()["source"] == 0


def test_what_was_written_before_samples_were_marked_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("hotlap.data.cache.LAYOUT", 1)
    epochs(Tiered(Some(), ram=0, disk=MB, path=tmp_path))
    monkeypatch.undo()
    cached = Tiered(Some(), ram=0, disk=MB, path=tmp_path)
    epochs(cached, number=1)
    assert cached.hits()["source"] == COUNT


def test_on_the_device_as_well():
    cached = Tiered(Some(), ram=0, device=MB, on="cpu")
    for epoch in epochs(cached):
        assert clean(epoch) == CLEAN
    assert cached.hits()["device"] == 2 * COUNT


@pytest.mark.parametrize(
    "around",
    [
        lambda data: Subset(data, range(COUNT)),
        lambda data: ConcatDataset([Subset(data, range(25)), Subset(data, range(25, COUNT))]),
        lambda data: Concurrent(data, threads=4),
    ],
)
def test_in_a_data_set_around_it_too(around):
    cached = Tiered(around(Some()), ram=MB)
    assert cached.below.rest
    for epoch in epochs(cached):
        assert clean(epoch) == CLEAN
    assert cached.hits()["ram"] == 2 * COUNT


@pytest.mark.filterwarnings("ignore:making")
def test_threads_that_ask_the_cache_do_not_hear_each_other():
    cached = Tiered(Some(), ram=MB)
    for epoch in epochs(Concurrent(cached, threads=8)):
        assert clean(epoch) == CLEAN
    assert cached.hits()["ram"] > COUNT


class Unreadable(Some):
    def __getitem__(self, index):
        return None if index in ODD else super().__getitem__(index)


def test_a_sample_that_is_nothing_stays_so():
    def collate(samples):
        return sorted(one[1] for one in samples if one is not None)

    cached = Tiered(Unreadable(), ram=MB)
    for _ in range(2):
        loader = DataLoader(cached, batch_size=COUNT, collate_fn=collate)
        assert list(loader) == [[index for index in range(COUNT) if index not in ODD]]


class Broken(Some):
    def __getitem__(self, index):
        if index in ODD:
            raise OSError("cannot read")
        return super().__getitem__(index)


def test_one_that_fails_is_named_with_its_own_reason():
    with pytest.raises(SampleError, match="sample 3: OSError: cannot read"):
        Tiered(Broken(), ram=MB)[3]


def test_one_that_is_skipped_comes_from_nowhere():
    cached = Tiered(Broken(), ram=MB, on_error="skip")
    with pytest.warns(UserWarning, match="sample 3 is skipped"):
        assert cached.__getitems__([3, 4])[0][1] == 4
    assert cached.hits()["source"] == 1


class Elsewhere(Some):
    """Its transform is called in another process, where nobody sees it."""

    def __getitem__(self, index):
        ends = os.pipe()
        child = os.fork()
        if not child:
            os.write(ends[1], packing.pack(self.transform(torch.full((4,), float(index)))))
            os._exit(0)
        os.waitpid(child, 0)
        made = packing.unpack(os.read(ends[0], 10_000))
        for end in ends:
            os.close(end)
        return made


def test_a_transform_that_another_process_calls_is_not_taken_out():
    with pytest.raises(NotCacheable, match="not called by the process that asks"):
        Tiered(Elsewhere(), ram=MB)


class Pairs(Dataset):
    """A transform for an image and its target, now and then for neither."""

    def __init__(self):
        self.transforms = self.mirrored

    @staticmethod
    def mirrored(image, target):
        return (image.flip(0), -target) if random.random() < 0.5 else (image, target)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        image, target = torch.arange(4.0) + index, 1 + index
        return (image, target) if index in ODD else (*self.transforms(image, target), index)


def test_a_transform_of_image_and_target_is_seen_too():
    def samples(source):
        random.seed(0)
        return [packing.pack(source[index]) for index in range(COUNT)]

    cached, plain = Tiered(Pairs(), ram=MB), samples(Pairs())
    assert cached.below.together
    assert samples(cached) == samples(cached) == plain
    assert cached.hits()["ram"] == COUNT


class Sought(Numbers):
    """As for a network that is told the derivatives with respect to its input."""

    def __getitem__(self, index):
        return torch.tensor([float(index)], requires_grad=True)


def test_samples_that_gradients_are_taken_for_are_not_kept():
    with pytest.raises(packing.CannotPack, match="requires a gradient"):
        Tiered(Sought(), ram=MB)
