"""The tiered cache within its budgets, however small, and when it is opened again."""

import shutil
from collections import namedtuple

import pytest
from numbers_kept import MB, Numbers, epoch

from hotlap.data import budgets, cache
from hotlap.data.tiered import Tiered

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize("tier", ["ram", "disk"])
def test_a_tier_that_would_hold_its_table_only_is_left_out_and_said(tmp_path, tier):
    options = {"ram": 1000} if tier == "ram" else {"ram": 0, "disk": 1000, "path": tmp_path}
    with pytest.warns(UserWarning, match=f"{tier}=1000 .*that tier is left out") as told:
        cached = Tiered(range(200_000), **options)
    assert len([one for one in told if "left out" in str(one.message)]) == 1
    assert [cached[index] for index in (5, 5, 7)] == [5, 5, 7]
    assert cached.used == {"device": 0, "ram": 0, "disk": 0}
    assert cached.fit.shares["source"] == 1
    assert list(tmp_path.iterdir()) == []


def test_a_share_of_the_disk_counts_what_the_cache_has_there_already(tmp_path, monkeypatch):
    """Else each restart would see less free, and fill less."""
    disk = 400_000

    def usage(_):
        used = sum(budgets.held(folder) for folder in tmp_path.iterdir())
        return Usage(disk, used, disk - used)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    first = Tiered(Numbers(size=500), ram=0, disk="80%", path=tmp_path)
    epoch(first)
    again = Tiered(Numbers(size=500), ram=0, disk="80%", path=tmp_path)
    assert again.fit.disk_bytes == pytest.approx(first.fit.disk_bytes, rel=0.02)


def test_no_more_disk_is_promised_than_there_is(tmp_path, monkeypatch):
    """What the cache has there already is its own to use."""
    disk = 60_000

    def usage(_):
        used = sum(budgets.held(folder) for folder in tmp_path.iterdir())
        return Usage(disk, used, disk - used)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    for _ in range(2):
        cached = Tiered(Numbers(size=500), ram=0, disk="200 GB", path=tmp_path)
        assert cached.fit.disk_bytes == pytest.approx(disk, rel=0.02)
        assert cached.fit.shares["source"] == pytest.approx(1 - 14 / 40, abs=0.05)
        for index in range(10):
            cached[index]


def test_nor_any_where_the_cache_could_not_be_made(tmp_path):
    path = tmp_path / "a file"
    path.write_text("")
    with pytest.warns(UserWarning, match="cannot hold a cache"):
        cached = Tiered(Numbers(), ram=0, disk=MB, path=path)
    assert cached.fit.shares["source"] == 1


def test_a_folder_without_a_budget_for_it_is_said(tmp_path):
    with pytest.warns(UserWarning, match="holds nothing without a budget"):
        Tiered(Numbers(), ram=MB, path=tmp_path)


@pytest.mark.parametrize("disk", [0, 10 * MB])
def test_a_sample_nobody_has_room_for_is_not_packed(tmp_path, monkeypatch, disk):
    packed = []
    plain = cache.pack
    monkeypatch.setattr(cache, "pack", lambda sample: packed.append(sample) or plain(sample))
    source = Numbers(count=100, size=1000)
    whole = Tiered(source, ram=10 * MB).fit.total_bytes
    cached = Tiered(source, ram=int(whole / 2), disk=disk, path=tmp_path if disk else None)
    epoch(cached)
    assert len(packed) == (100 if disk else pytest.approx(50, abs=3))
    cached.forget_hits()
    epoch(cached)
    assert cached.hit_rate == (1.0 if disk else pytest.approx(0.5, abs=0.03))
    assert len(packed) == (100 if disk else pytest.approx(50, abs=3))


class Text:
    """Characters of one long text, as language models are trained on."""

    def __init__(self, text):
        self.text = text

    def __len__(self):
        return len(self.text) // 2000

    def __getitem__(self, index):
        return self.text[2000 * index : 2000 * (index + 1)]


def test_all_files_together_stay_within_the_budget(tmp_path):
    source = Text("abcd" * 500_000)
    assert len(list(Tiered(source, ram=0, disk="1 MB", path=tmp_path))) == 1000
    held = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert 0.9e6 < held <= 1e6
    with pytest.warns(UserWarning, match="samples were removed"):
        again = Tiered(source, ram=0, disk="0.5 MB", path=tmp_path)
    assert [again[at] for at in range(len(source))] == [source[at] for at in range(len(source))]
    held = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert 0.4e6 < held <= 0.5e6
