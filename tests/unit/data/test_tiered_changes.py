"""A data set that changes after it was cached: its samples must not be those of before."""

import pytest
import torch
from numbers_kept import MB, Numbers
from torch.utils.data import ConcatDataset, DataLoader, Subset

from hotlap.data.concurrent import Concurrent
from hotlap.data.layers import NotCacheable
from hotlap.data.order import Order, seeded
from hotlap.data.superres import Pairs
from hotlap.data.synthetic import SyntheticImages
from hotlap.data.tiered import Tiered


class Scaled(Numbers):
    def __init__(self, transform=None, factor=1):
        super().__init__()
        self.transform, self.factor, self.file = transform, factor, None

    def __getitem__(self, index):
        value = torch.tensor(float(index * self.factor))
        return value if self.transform is None else self.transform(value)


def whole(cached):
    return [float(cached[index]) for index in range(len(cached))]


def pairs():
    return Pairs(SyntheticImages(count=20, size=64), scale=4, crop=32)


@pytest.mark.parametrize(
    "around",
    [
        lambda data: data,
        lambda data: Subset(data, [1, 2]),
        lambda data: ConcatDataset([Numbers(), data]),
        Concurrent,
    ],
)
def test_a_set_that_changes_with_the_epoch_is_refused_with_what_to_do(around):
    with pytest.raises(NotCacheable, match="Pairs around the cache"):
        Tiered(around(pairs()), ram=MB)


def test_what_such_a_set_reads_can_be_cached():
    images = Tiered(SyntheticImages(count=20, size=64), ram=MB)
    data, plain = Pairs(images, scale=4, crop=32), pairs()
    for number in range(3):
        data.set_epoch(number)
        plain.set_epoch(number)
        assert torch.equal(data[3][1], plain[3][1])


class Drawn(Numbers):
    def __init__(self, epoch_of):
        super().__init__()
        self.epoch_of = epoch_of

    def __getitem__(self, index):
        return seeded(0, self.epoch_of(index), index).initial_seed()


@pytest.mark.parametrize("around", [lambda data: data, Concurrent])
@pytest.mark.parametrize(
    "epoch_of", [lambda index: index.epoch, lambda index: getattr(index, "epoch", 0)]
)
def test_a_set_that_asks_its_indices_for_their_epoch_is_refused(epoch_of, around):
    with pytest.raises(NotCacheable, match="asks its indices for their `epoch`"):
        Tiered(around(Drawn(epoch_of)), ram=MB)


def test_an_order_that_tells_the_epoch_is_nothing_to_other_sets():
    cached = Tiered(Numbers(), ram=MB)
    order = Order(40, shuffle=False, with_epoch=True)
    for _ in range(2):
        assert [cached[index][1] for index in order] == [0, 1] * 20
    assert cached.hits()["ram"] == 40


@pytest.mark.parametrize("name", ["transform", "factor"])
def test_an_attribute_is_set_on_the_data_set_and_its_samples_follow(name):
    source = Scaled()
    cached = Tiered(source, ram=MB)
    whole(cached)
    value = 3 if name == "factor" else lambda value: value * 3
    setattr(cached, name, value)
    assert getattr(source, name) is value
    for _ in range(2):
        assert whole(cached) == [3.0 * index for index in range(40)]
    assert cached.hits()["ram"] == 40


def test_another_random_transform_leaves_the_cache_as_it_is():
    cached = Tiered(Scaled(lambda value: value + torch.rand(())), ram=MB)
    whole(cached)
    cached.transform = lambda value: value - torch.rand(())
    assert all(value <= index for index, value in enumerate(whole(cached)))
    assert cached.hits()["source"] == 40


def test_an_attribute_that_is_nothing_to_the_samples_leaves_it_too():
    cached = Tiered(Scaled(), ram=MB)
    whole(cached)
    with open(__file__) as cached.file:
        whole(cached)
    assert cached.hits()["source"] == 40


def test_a_worker_that_makes_other_samples_does_without_the_cache(monkeypatch):
    cached = Tiered(Scaled(), ram=MB)
    whole(cached)
    monkeypatch.setattr("hotlap.data.cache.get_worker_info", object)
    with pytest.warns(UserWarning, match="does without the cache"):
        cached.factor = 3
    for _ in range(2):
        assert whole(cached) == [3.0 * index for index in range(40)]
    assert cached.used["ram"] == 0


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["transform", "factor"])
def test_what_is_set_on_the_data_set_itself_is_seen(name, workers):
    """Workers see it by themselves, and the training process when it asks for the length."""
    source = Scaled()
    loader = DataLoader(Tiered(source, ram=MB), batch_size=8, num_workers=workers)
    assert torch.cat(list(loader)).tolist() == list(range(40))
    setattr(source, name, 3 if name == "factor" else lambda value: value * 3)
    with pytest.warns(UserWarning, match=f"`{name}` was changed on the data set"):
        assert torch.cat(list(loader)).tolist() == [3.0 * index for index in range(40)]
    assert torch.cat(list(loader)).tolist() == [3.0 * index for index in range(40)]
    assert loader.dataset.outdated() == name


def test_set_through_the_cache_it_is_cached_again():
    source = Scaled()
    cached = Tiered(source, ram=MB)
    source.factor = 3
    with pytest.warns(UserWarning, match="behind the cache"):
        assert whole(cached) == [3.0 * index for index in range(40)]
    cached.factor = 4
    for _ in range(2):
        assert whole(cached) == [4.0 * index for index in range(40)]
    assert cached.hits()["ram"] == 40


class Sharded(Scaled):
    """Opens a file when it comes to the samples in it, and none for those looked at first."""

    def __getitem__(self, index):
        if index % 8 == 3:
            self.file = open(__file__).close() or object()
        return super().__getitem__(index)


def test_what_the_data_set_opens_while_it_is_read_keeps_the_cache():
    cached = Tiered(Sharded(), ram=MB)
    for _ in range(2):
        assert whole(cached) == list(range(40))
    assert cached.hits()["ram"] == 40


def test_a_data_set_that_becomes_shorter_has_its_new_length():
    source = Numbers()
    cached = Tiered(source, ram=MB)
    source.count = 10
    with pytest.warns(UserWarning, match="`count`"):
        assert len(cached) == 10


def test_what_cannot_be_cached_any_more_is_not_and_training_goes_on():
    source = Scaled()
    cached = Tiered(source, ram=MB)
    with pytest.warns(UserWarning, match="`factor` as it is now nothing is cached"):
        cached.factor = Chance()
    assert cached[3] != cached[3]
    assert cached.outdated() == "factor"


class Chance:
    def __rmul__(self, index):
        return index * torch.rand(()).item()


class Seldom:
    """Makes something for itself the first time it comes to need it, long after the first looks."""

    def __init__(self):
        self.calls, self.table = iter(range(1000)), None

    def __call__(self, value):
        if next(self.calls) > 100:
            self.table = self.table or object()
        return value + torch.rand(())


def test_what_a_transform_makes_for_itself_keeps_the_cache():
    cached = Tiered(Scaled(Seldom()), ram=MB)
    for _ in range(5):
        whole(cached)
    assert cached.transform.table is not None
    assert cached.hits()["ram"] == 160


class Private(Numbers):
    def __init__(self):
        super().__init__()
        self._level, self._samples, self._source = 0, ["a"], "elsewhere"

    def __getitem__(self, index):
        return torch.tensor(float(index + 100 * self._level))


def test_private_attributes_are_those_of_the_data_set():
    source = Private()
    cached = Tiered(source, ram=MB)
    whole(cached)
    assert (cached._samples, cached._source) == (["a"], "elsewhere")
    cached._level = 3
    assert source._level == 3
    for _ in range(2):
        assert whole(cached) == [index + 300.0 for index in range(40)]
    assert cached.hits()["ram"] == 40


def shared(level):
    class Base(Numbers):
        pass

    class Shared(Base):
        def __getitem__(self, index):
            return torch.tensor(float(index + 100 * (self.level + len(self.options))))

    Base.level, Shared.options = level, {}
    return Shared()


def other_class(data):
    data.__class__ = type("Other", (type(data),), {"__getitem__": lambda self, index: 7.0})


CHANGES = {
    "level": lambda data: setattr(type(data).__mro__[1], "level", 3),
    "options": lambda data: type(data).options.update(more=1),
    "__getitem__": lambda data: setattr(type(data), "__getitem__", lambda self, index: 7.0),
    "__class__": other_class,
}


@pytest.mark.parametrize(("name", "change"), CHANGES.items(), ids=CHANGES)
def test_what_is_changed_on_the_class_is_seen(name, change):
    source = shared(0)
    cached = Tiered(source, ram=MB)
    before = whole(cached)
    change(source)
    with pytest.warns(UserWarning, match=f"`{name}` was changed"):
        after = whole(cached)
    assert after == [float(source[index]) for index in range(40)] != before


def test_what_a_data_set_counts_on_its_class_keeps_the_cache():
    class Counting(Numbers):
        asked = 0

        def __getitem__(self, index):
            type(self).asked += 1
            return torch.tensor(float(index))

    cached = Tiered(Counting(), ram=MB)
    assert whole(cached) == whole(cached)
    assert cached.hits()["ram"] == 40
