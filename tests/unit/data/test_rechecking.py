"""What was kept is made again now and then: it shows what could not be watched."""

import random
import time
import warnings

import numpy
import pytest
import torch
from numbers_kept import MB, Numbers
from PIL import Image
from torch.utils.data import DataLoader

from hotlap.data import rechecking
from hotlap.data.packing import Finished, pack
from hotlap.data.rechecking import Rechecking
from hotlap.data.tiered import Tiered

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
ELSEWHERE = {"factor": 1.0}


class Clocked(Numbers):
    """Random at a few indices, none of them looked at first, by what nobody can watch."""

    def __getitem__(self, index):
        drawn = random.Random(time.perf_counter_ns()).random() if index % 10 == 7 else 0.0
        return torch.tensor(index + drawn)


class Elsewhere(Numbers):
    def __getitem__(self, index):
        return torch.tensor(index * ELSEWHERE["factor"])


@pytest.fixture(autouse=True)
def with_each_batch(monkeypatch, request):
    if "clock" not in request.fixturenames:
        always = property(lambda self: 0.0, lambda self, when: None)
        monkeypatch.setattr(Rechecking, "_next", always, raising=False)
    monkeypatch.setitem(ELSEWHERE, "factor", 1.0)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def epochs(cached, count, **options):
    return [torch.cat(list(DataLoader(cached, batch_size=4, **options))) for _ in range(count)]


@pytest.mark.parametrize("workers", [0, 2])
def test_randomness_that_cannot_be_watched_is_found(workers):
    """In whichever process it is found, all are told, and the samples are random again."""
    cached = Tiered(Clocked(40), ram=MB)
    options = {"num_workers": workers, "persistent_workers": bool(workers)}
    loader = DataLoader(cached, batch_size=4, shuffle=True, **options)
    with warnings.catch_warnings(record=True) as told:  # those of workers stay there
        warnings.simplefilter("always")
        for _ in range(60):
            list(loader)
            if cached.wrong() is not None:
                break
    assert "is not the same each time it is made" in cached.wrong()
    assert int(cached.wrong().split()[1]) % 10 == 7
    assert workers or any("all samples come from the data set" in str(one.message) for one in told)
    first, second = epochs(cached, 2, num_workers=workers)
    assert (first != second).nonzero().flatten().tolist() == [7, 17, 27, 37]


def test_what_has_changed_elsewhere_is_found():
    cached = Tiered(Elsewhere(40), ram=MB)
    epochs(cached, 3)
    assert cached.wrong() is None
    ELSEWHERE["factor"] = 2.0
    with pytest.warns(UserWarning, match="is made otherwise now than when it was kept"):
        (found,) = epochs(cached, 1)
    assert found.tolist() == [2.0 * index for index in range(40)]


def test_the_batch_it_is_found_in_is_right():
    cached = Tiered(Elsewhere(8), ram=MB)
    epochs(cached, 1)
    ELSEWHERE["factor"] = 3.0
    with pytest.warns(UserWarning, match="otherwise"):
        assert torch.stack(cached.__getitems__(range(1, 5))).tolist() == [3.0, 6.0, 9.0, 12.0]


def test_what_was_kept_on_disk_is_forgotten_for_good(tmp_path):
    places = {"ram": 0, "disk": MB, "path": tmp_path}
    cached = Tiered(Elsewhere(40), **places)
    epochs(cached, 1)
    ELSEWHERE["factor"] = 2.0
    with pytest.warns(UserWarning, match="otherwise"):
        epochs(cached, 1)
    ELSEWHERE["factor"] = 1.0  # the same samples as those of before, to those who look
    again = Tiered(Elsewhere(40), **places)
    epochs(again, 1)
    assert again.hits()["source"] == 40


def test_other_ranks_find_nothing_in_the_memory_they_share():
    cached = Tiered(Elsewhere(40), ram=MB)
    epochs(cached, 1)
    ELSEWHERE["factor"] = 2.0
    with pytest.warns(UserWarning, match="otherwise"):
        epochs(cached, 1)
    arena = cached._tiered.arena
    assert arena.count() == 0
    assert not arena.put(3, b"more")


def test_samples_on_a_device_are_doubted_too():
    cached = Tiered(Elsewhere(40), ram=0, device=MB, on="cpu")
    epochs(cached, 2)
    assert cached.hits()["device"] == 40
    ELSEWHERE["factor"] = 2.0
    with pytest.warns(UserWarning, match="otherwise"):
        (found,) = epochs(cached, 1)
    assert found.tolist() == [2.0 * index for index in range(40)]


def test_what_stays_the_same_is_never_doubted_for_long():
    source = Numbers(40)
    cached = Tiered(source, ram=MB)
    epochs_of = DataLoader(cached, batch_size=8)
    for _ in range(5):
        list(epochs_of)
    assert cached.wrong() is None
    assert int(source.made.sum()) > 40  # those of the first epoch: it was doubted
    assert cached.hits()["ram"] == 160


def test_random_numbers_go_on_as_if_nothing_had_been_made_again():
    class Drawing(Elsewhere):
        def __getitem__(self, index):
            made = super().__getitem__(index)
            if self.drawing:
                torch.rand(3), random.random(), numpy.random.rand()
            return made

    source = Drawing(40)
    source.drawing = False
    cached = Tiered(source, ram=MB)
    epochs(cached, 1)
    source.__dict__["drawing"] = True
    cached._tiered._noted.settle()
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(1)
    before = float(torch.rand(())), random.random(), float(numpy.random.rand())
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(1)
    for _ in range(3):
        cached.__getitems__(range(8))
    assert (float(torch.rand(())), random.random(), float(numpy.random.rand())) == before


def test_what_cannot_be_made_any_more_is_served_all_the_same():
    source = Numbers(40)
    cached = Tiered(source, ram=MB)
    list(DataLoader(cached, batch_size=8))
    source.broken.update(range(40))
    cached._tiered._noted.settle(closely=True)
    assert len(list(DataLoader(cached, batch_size=8))) == 5
    assert cached.wrong() is None
    assert cached.failures.count == 0


def test_making_again_takes_its_share_of_the_time(clock):
    doubt, asked = Rechecking(0.01), []

    class Below:
        rest = ()

        class dataset:
            def __class_getitem__(cls, index):
                asked.append(clock[0])
                clock[0] += 0.030
                return index

    doubt.took(3.0, 100)
    for _ in range(20_000):
        clock[0] += 0.001
        index = doubt.chosen([1, 2], [5, 6])
        if index is not None:
            assert doubt.finds(Below, index, pack(index)) is None
    assert asked[0] == pytest.approx(103.0, abs=0.01)  # as long as one sample is the share
    assert len(asked) == pytest.approx(20 / 3, abs=1)
    assert not doubt.has_found


def test_a_share_of_nothing_never_asks():
    cached = Tiered(Clocked(40), ram=MB, recheck=0)
    epochs(cached, 5)
    assert cached.wrong() is None


@pytest.mark.parametrize("share", [-0.1, 2, float("nan")])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(ValueError, match="a share of the time, from 0 to 1"):
        Tiered(Numbers(), ram=MB, recheck=share)


def tinted(colour):
    """The same pixels with other colours."""
    image = Image.new("P", (2, 2), 0)
    image.putpalette([colour] * 3)
    return image


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (torch.tensor([1.0, 1000.0]), torch.tensor([1.0, 1000.01]), True),
        (torch.tensor([1.0, 1000.0]), torch.tensor([1.5, 1000.0]), False),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), True),
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, 2.0]), False),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), False),
        (torch.zeros(2), torch.zeros(3), False),
        (numpy.array([1.0]), numpy.array([1.00001]), True),
        ((1.0, "cat"), (1.000001, "cat"), True),
        ((1.0, "cat"), (1.0, "dog"), False),
        ([1, 2], [1], False),
        ({"a": torch.ones(2)}, {"a": torch.ones(2) * 1.000001}, True),
        ({"a": 1}, {"b": 1}, False),
        (Finished(torch.ones(2)), Finished(torch.ones(2) * 2), False),
        (Image.new("L", (2, 2), 1), Image.new("L", (2, 2), 2), False),
        (tinted(1), tinted(2), False),
        (torch.empty(0), torch.empty(0), True),
        (1, 1.0, False),
        (1, 2, False),
        (None, None, True),
        (numpy.array(["a"]), numpy.array(["b"]), False),
        (numpy.array(["2026-11-16"], "M8[D]"), numpy.array(["2026-11-17"], "M8[D]"), False),
        (numpy.float32(1), numpy.float32(2), False),
        (b"one", b"two", False),
    ],
)
def test_the_last_digits_are_nothing_to_go_by(first, second, same):
    assert rechecking._are_same(pack(first), pack(second)) is same
