"""The tiered cache as a data set: samples are what the source makes, from the nearest tier."""

import gc
import os
import pickle

import pytest
import torch
from numbers_kept import MB, RIGHT, Numbers, epoch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from hotlap.data import arena, budgets, randomness
from hotlap.data.packing import CannotPack
from hotlap.data.tiered import Tiered

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_every_epoch_is_right_and_the_second_is_from_memory(workers):
    source = Numbers()
    cached = Tiered(source, ram=MB)
    asked = source.made.clone()
    assert epoch(cached, num_workers=workers) == RIGHT
    assert (source.made - asked == 1).all()
    assert cached.hits() == {"device": 0, "ram": 0, "disk": 0, "source": 40}
    cached.forget_hits()
    assert epoch(cached, num_workers=workers) == RIGHT
    assert (source.made - asked == 1).all()
    assert cached.hit_rate == 1.0


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_that_are_not_forked_share_the_same_memory(context):
    cached = Tiered(torch.utils.data.TensorDataset(torch.arange(40.0)), ram=MB)
    order, options = list(range(40)), {"num_workers": 2, "multiprocessing_context": context}
    loader = DataLoader(cached, batch_size=10, sampler=order, persistent_workers=True, **options)
    for _ in range(2):
        assert sorted(int(x) for (batch,) in loader for x in batch) == list(range(40))
        order.reverse()  # of four batches: each worker asks for what the other one has kept
    assert cached.hits() == {"device": 0, "ram": 40, "disk": 0, "source": 40}


def test_what_does_not_fit_comes_from_the_source_and_the_rest_still_hits():
    """Never-evict: the hit rate is the share that is cached, whatever the order."""
    source = Numbers(count=100, size=1000)
    whole = Tiered(source, ram=10 * MB).fit.total_bytes
    cached = Tiered(source, ram=int(whole / 2))
    epoch(cached)
    for _ in range(2):
        cached.forget_hits()
        epoch(cached)
        assert cached.hit_rate == pytest.approx(0.5, abs=0.03)
    assert cached.used["ram"] <= whole / 2


def test_where_nothing_more_is_kept_no_random_numbers_are_watched(monkeypatch):
    source = Numbers(count=100, size=1000)
    cached = Tiered(source, ram=Tiered(source, ram=10 * MB).fit.total_bytes // 2)
    first = epoch(cached)
    monkeypatch.setattr(randomness, "state", None)
    cached.forget_hits()
    assert epoch(cached) == first
    hits = cached.hits()
    assert hits["ram"] == pytest.approx(50, abs=3)
    assert hits["ram"] + hits["source"] == 100


def test_what_memory_has_no_room_for_goes_to_disk(tmp_path):
    source = Numbers(count=100, size=1000)
    whole = Tiered(source, ram=10 * MB).fit.total_bytes
    cached = Tiered(source, ram=int(whole / 2), disk=int(whole * 0.7), path=tmp_path)
    epoch(cached)
    cached.forget_hits()
    epoch(cached)
    counted = cached.hits()
    assert counted["source"] == 0
    assert 40 < counted["ram"] < 60
    assert counted["ram"] + counted["disk"] == 100


def test_a_disk_that_holds_everything_makes_the_next_run_warm(tmp_path):
    source = Numbers()
    assert epoch(Tiered(source, ram=MB, disk=MB, path=tmp_path)) == RIGHT
    made = source.made.sum()
    again = Tiered(source, ram=MB, disk=MB, path=tmp_path)
    asked = source.made.sum() - made
    assert epoch(again) == RIGHT
    assert source.made.sum() == made + asked
    assert again.hits() == {"device": 0, "ram": 0, "disk": 40, "source": 0}
    again.forget_hits()
    epoch(again)
    assert again.hits()["ram"] == 40  # what came from disk is in memory now


def test_other_data_under_the_same_name_is_found_out(tmp_path):
    epoch(Tiered(Numbers(), ram=0, disk=MB, path=tmp_path))

    class Changed(Numbers):
        def __getitem__(self, index):
            values, label = super().__getitem__(index)
            return values + 1000, label

    Changed.__qualname__, Changed.__module__ = Numbers.__qualname__, Numbers.__module__
    for _ in range(2):  # and both stay warm beside each other
        cached = Tiered(Changed(), ram=0, disk=MB, path=tmp_path)
        assert sorted(epoch(cached)) == list(range(1000, 1040))
        assert epoch(again := Tiered(Numbers(), ram=0, disk=MB, path=tmp_path)) == RIGHT
        assert again.hits()["disk"] == 40
    assert cached.hits()["disk"] == 40


def test_another_version_is_another_cache(tmp_path):
    epoch(Tiered(Numbers(), ram=0, disk=MB, path=tmp_path))
    cached = Tiered(Numbers(), ram=0, disk=MB, path=tmp_path, version="2")
    epoch(cached)
    assert cached.hits()["source"] == 40


@pytest.mark.filterwarnings("ignore:.*that tier is left out")
@pytest.mark.parametrize("budget", [0, "0%", 1])
def test_a_budget_of_nothing_changes_nothing(budget):
    cached = Tiered(Numbers(), ram=budget)
    for _ in range(2):
        assert epoch(cached) == RIGHT
    assert cached.hits()["source"] == 80


def test_samples_of_very_different_sizes_stay_within_the_budget():
    class Odd(Numbers):
        def __getitem__(self, index):
            return torch.full((10 if index % 10 else 10_000,), index), index % 2

    cached = Tiered(Odd(count=200), ram=300_000)
    for _ in range(2):
        for index in range(200):
            assert int(cached[index][0][0]) == index
    assert 0 < cached.used["ram"] <= 300_000
    assert cached.hits()["ram"] > 100  # a large one that does not fit stops no small one


def test_what_fits_is_known_before_anything_is_filled():
    cached = Tiered(Numbers(count=1000, size=100), ram=40_000)
    fit = cached.fit
    assert fit.samples == 1000
    assert 800 < fit.sample_bytes < 900
    room = 40_000 - arena.table_bytes(1000)
    assert fit.shares["ram"] == pytest.approx(room / 1000 / arena.aligned(int(fit.sample_bytes)))
    assert "come from the source" in fit.sentence
    assert cached.used["ram"] <= 40_000


def test_files_that_are_read_are_set_against_the_memory_they_take(tmp_path):
    for index in range(10):
        (tmp_path / f"{index}.bin").write_bytes(bytes(1000))

    class Files(Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, index):
            content = (tmp_path / f"{index}.bin").read_bytes()
            return torch.zeros(len(content), 3)

    assert Tiered(Files(), ram=MB).fit.ratio == pytest.approx(12, rel=0.2)
    assert Tiered(Numbers(), ram=MB).fit.ratio is None


def test_exotic_samples_are_refused_by_their_type():
    class Exotic(Numbers):
        def __getitem__(self, index):
            return {1, 2, index}

    with pytest.raises(CannotPack, match=r"builtins\.set"):
        Tiered(Exotic(), ram=MB)


def test_a_stream_has_no_samples_to_keep():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    with pytest.raises(TypeError, match="no samples by index"):
        Tiered(Stream(), ram=MB)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ram": "lots"}, "not a size"),
        ({"ram": "120%"}, "more than there is"),
        ({"ram": -5}, "not a size"),
        ({"disk": MB}, "needs a folder"),
        pytest.param(
            {"device": 100},
            "needs a CUDA device",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
        ({"device": "50%", "on": "cpu"}, "is a share of a GPU's memory"),
        ({"on_error": "ignore"}, "'raise', 'skip' or 'as is'"),
    ],
)
def test_options_that_make_no_sense_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        Tiered(Numbers(), **{"ram": MB, **options})


def test_changing_a_sample_does_not_change_the_cache():
    cached = Tiered(Numbers(), ram=MB)
    for _ in range(3):
        values, _ = cached[5]
        values += 100
    assert int(cached[5][0][0]) == 5


def test_it_looks_like_the_data_set_it_holds():
    cached = Tiered(Numbers(), ram=MB)
    assert len(cached) == 40
    assert cached.classes == ["even", "odd"]
    assert int(cached[-1][0][0]) == 39
    with pytest.raises(IndexError):
        cached[40]
    with pytest.raises(AttributeError):
        _ = cached.nothing_like_it
    assert len(list(torch.utils.data.Subset(cached, [1, 2]))) == 2
    assert len(cached + cached) == 80


def test_with_a_device_tier_samples_come_on_the_device_and_within_its_budget():
    source = Numbers(count=20, size=100)
    cached = Tiered(source, ram=MB, device=900 * 5, on="cpu")
    for _ in range(2):
        assert [int(cached[index][0][0]) for index in range(20)] == list(range(20))
    assert cached.hits() == {"device": 5, "ram": 15, "disk": 0, "source": 20}
    assert cached.used["device"] == 5 * 800


def test_filling_ends_before_the_machine_swaps(monkeypatch):
    cached = Tiered(Numbers(), ram=MB)
    monkeypatch.setattr(budgets, "free_share", lambda: 0.01)
    with pytest.warns(UserWarning, match="memory is short"):
        epoch(cached)
    cached.forget_hits()
    assert epoch(cached) == RIGHT
    assert cached.hits()["source"] == 40


def test_it_can_be_pickled_into_the_same_memory():
    cached = Tiered(torch.utils.data.TensorDataset(torch.arange(4.0)), ram=MB)
    other = pickle.loads(pickle.dumps(cached))
    assert other[2][0] == 2
    assert other.hits()["source"] == 1
    assert cached[2][0] == 2
    assert cached.hits()["ram"] == 1


class Heavy(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((250_000,), index, dtype=torch.uint8)


def shared_bytes(workers):
    """What the cache takes of memory, over all processes of a loader that has filled it."""
    cached = Tiered(Heavy(), ram=40 * MB)
    loader = DataLoader(cached, batch_size=4, num_workers=workers, persistent_workers=True)
    for _ in range(2):
        for _ in loader:
            pass
    pids = [os.getpid(), *(worker.pid for worker in loader._iterator._workers)]
    total = 0
    for pid in pids:
        inside = False
        with open(f"/proc/{pid}/smaps") as lines:
            for line in lines:
                if "-" in line.split(maxsplit=1)[0]:
                    inside = "hotlap-cache" in line
                elif inside and line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def test_eight_workers_take_no_more_memory_than_one():
    one, eight = shared_bytes(1), shared_bytes(8)
    assert one > 64 * 250_000
    assert eight < 1.05 * one


def test_nothing_stays_open_when_it_goes(tmp_path):
    def opened():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    Tiered(Numbers(), ram=MB, disk=MB, path=tmp_path)
    before = opened()
    for version in range(20):
        epoch(Tiered(Numbers(), ram=MB, disk=MB, path=tmp_path, version=str(version)))
    assert opened() <= before + 2
