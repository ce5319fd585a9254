"""What is expected of a cache before it is filled."""

import itertools
import re

import pytest
from numbers_kept import MB, Numbers

from hotlap.data import fitting
from hotlap.data.packing import pack
from hotlap.data.tiered import Tiered


class Rare:
    """One in 37 is a thousand times as large."""

    def __len__(self):
        return 300

    def __getitem__(self, index):
        return bytes(40_000 if index % 37 == 20 else 40)


def test_a_few_large_samples_are_seen_where_looking_is_cheap():
    fit = Tiered(Rare(), ram=MB).fit
    real = sum(len(Rare()[index]) for index in range(300))
    assert abs(fit.total_bytes - real) < 3 * 300 * fit.error_bytes
    assert fit.total_bytes > real / 3
    assert "±" in fit.sentence


def test_what_is_said_to_fit_allows_for_what_was_not_seen():
    class Few(Rare):
        def __len__(self):
            return 2000

    cached = Tiered(Few(), ram=MB)
    assert len(list(cached)) == len(list(cached)) == 2000
    kept = cached.hits()["ram"] / 2000
    least, most = re.search(r"(\d+)% to (\d+)% fit in ram", cached.fit.sentence).groups()
    assert int(least) <= 100 * kept <= int(most)
    assert re.search(r"\d+% to \d+% come from the source", cached.fit.sentence)


def test_where_all_samples_are_alike_one_number_says_it():
    assert Tiered(Numbers(), ram=MB).fit.sentence.endswith(": 100% fit in ram")


def test_where_samples_are_dear_few_are_made_and_it_is_said():
    source = Numbers(count=1000)
    clock = itertools.count(step=fitting.MORE_SECONDS / 10.5).__next__
    sizes = fitting.more_sizes(source, 1000, clock=clock)
    assert len(sizes) == source.made.sum() == 10
    fit = fitting.fit(
        sizes,
        fitting.Probes(indices=[0], read_bytes=None),
        samples=1000,
        budgets={"device": 0, "ram": MB, "disk": 0},
    )
    assert "(by 10 of them)" in fit.sentence


def test_looking_fails_no_sample_and_moves_no_random_numbers():
    assert fitting.more_sizes(Numbers(broken=range(40)), 40) == []


def test_a_set_that_reads_nothing_has_no_ratio(monkeypatch):
    seen = itertools.count(step=100).__next__  # as another thread's doings
    monkeypatch.setattr(fitting, "read_so_far", seen)
    assert fitting.probe(Numbers(), 40).read_bytes is None


@pytest.mark.parametrize("budget", [0, MB])
def test_nothing_fits_nowhere(budget):
    fit = Tiered([], ram=budget).fit
    assert fit.sentence == "no samples"


class Sized:
    """Samples of these packed sizes, in turns."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def __len__(self):
        return 2000

    def __getitem__(self, index):
        return bytes(self.sizes[index % len(self.sizes)] - len(pack(b"")))


def share_kept(source, **options):
    cached = Tiered(source, **options)
    assert len(list(cached)) == 2000
    cached.forget_hits()
    assert len(list(cached)) == 2000
    return cached.fit.shares["source"], 1 - cached.hit_rate


SIZES = {"27 B": [27], "128 B": [128], "1 kB": [1000], "mixed": [27, 500, 1001]}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("tier", ["ram", "disk"])
@pytest.mark.parametrize("part", [1.0, 0.7])
def test_what_is_said_to_fit_fits(tmp_path, sizes, tier, part):
    source = Sized(*sizes)
    fit = Tiered(source, ram=10 * MB).fit
    budget = int(part * fit.total_bytes)
    where = {"disk": budget, "path": tmp_path, "ram": 0} if tier == "disk" else {"ram": budget}
    missing, missed = share_kept(source, **where)
    assert missed == pytest.approx(missing, abs=0.02 if len(sizes) == 1 else 0.1)
    if part == 1.0:
        assert missed == 0.0 if len(sizes) == 1 else missed < 0.1
