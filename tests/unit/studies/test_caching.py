"""Epochs with every kind of cache, for real, on a few small images."""

import itertools

import pytest
import torch

from hotlap.studies import cache, caching, processes

pytest.importorskip("PIL")
SMALL = {"count": 20, "size": 32, "batch": 4, "workers": 0, "warm": 2, "device": "cpu"}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(way, data=cache.CIFAR, **changes):
    return caching.measure(data=data, way=cache.WAYS[way], **{**SMALL, **changes})


def test_files_are_removed_in_the_end(tmp_path):
    run("disk")
    assert list(tmp_path.iterdir()) == []


def test_without_a_cache_nothing_is_kept_and_files_are_read_in_each_epoch():
    found = run(cache.NONE)
    assert found["hit_rate"] is None
    assert found["ram_bytes"] == found["disk_bytes"] == 0
    read = [one["read_bytes"] for one in found["timeline"]]
    assert len(read) == 4
    for before, after in itertools.pairwise(read):
        assert after - before >= found["file_bytes"]


def test_memory_holds_each_image_once_and_hits_always():
    found = run(cache.RAM)
    decoded = SMALL["count"] * 3 * 32 * 32
    assert found["hit_rate"] == 1.0
    assert decoded <= found["ram_bytes"] < 1.2 * decoded


def test_files_that_are_kept_are_not_read_again():
    found = run(cache.RAM, size=256)
    read = [one["read_bytes"] for one in found["timeline"]]
    assert read[1] - read[0] >= found["file_bytes"]
    assert read[3] - read[1] < found["file_bytes"]  # looking reads a little itself


def test_room_for_half_hits_in_about_half_of_all_cases():
    found = run("half in RAM")
    assert 0.3 <= found["hit_rate"] <= 0.5
    assert found["disk_bytes"] == 0


def test_what_memory_has_no_room_for_goes_to_the_disk():
    found = run("half + disk")
    assert found["hit_rate"] == 1.0
    assert found["disk_bytes"] > 0
    assert 0 < found["ram_bytes"] < SMALL["count"] * 3 * 32 * 32


def test_the_disk_alone_takes_no_memory():
    found = run("disk")
    assert found["hit_rate"] == 1.0
    assert found["ram_bytes"] == 0


def test_pieces_for_super_resolution_come_from_kept_images():
    found = run(cache.RAM, data=cache.SUPERRES, size=caching.CROP, count=6)
    assert found["hit_rate"] == 1.0


class Counted:
    def __init__(self):
        self.asked = []

    def __len__(self):
        return 3

    def __getitem__(self, index):
        self.asked.append(index)
        return torch.zeros(10, dtype=torch.uint8), index


def test_the_naive_dict_keeps_what_it_has_seen_and_counts_it():
    source = Counted()
    naive = caching.Naive(source)
    for index in (0, 1, 0):
        naive[index]
    assert source.asked == [0, 1]
    assert naive.hit_rate == pytest.approx(1 / 3)
    assert naive.used == {"ram": 20}
    naive.forget_hits()
    assert naive.hit_rate is None
    assert naive.used == {"ram": 20}


def test_memory_and_reading_of_this_process_are_known(tmp_path):
    assert processes.memory_bytes() > 1 << 20
    file = tmp_path / "file"
    file.write_bytes(bytes(100_000))
    before = processes.read_bytes()
    file.read_bytes()
    assert processes.read_bytes() - before >= 100_000


ROLLUP = """5581-7ffd ---p 00000000 00:00 0 [rollup]
Rss: 900 kB
Pss: 700 kB
Pss_Anon: 300 kB
Pss_File: 350 kB
Pss_Shmem: 50 kB
"""


def test_files_that_are_mapped_are_not_counted_as_memory():
    assert processes.mapped(ROLLUP) == 350 * 1024
    assert processes.mapped("5581-7ffd [rollup]\nRss: 900 kB\n") is None
