"""What the device tier holds, and what it leaves to others."""

import pickle

import numpy
import pytest
import torch
from numbers_kept import MB, Numbers, epoch
from PIL import Image

from hotlap.data.ondevice import OnDevice
from hotlap.data.shelf import table_bytes
from hotlap.data.tiered import Tiered


class Arrays(Numbers):
    def __getitem__(self, index):
        return numpy.full(1000, index)


def test_samples_without_tensors_stay_in_memory_and_within_its_budget():
    cached = Tiered(Arrays(), ram=0, device=1, on="cpu")
    for _ in range(2):
        sample = cached[5]
        sample[:] = -1
    assert cached[5][0] == 5
    assert cached.used["device"] == 0
    assert cached.hits()["device"] == 0


def test_images_and_arrays_beside_a_tensor_are_not_held_either():
    tier = OnDevice(torch.device("cpu"), MB)
    for index, beside in enumerate([numpy.zeros(9), Image.new("L", (2, 2)), b"bytes"]):
        tier.moved(index, (torch.zeros(9), beside))
        assert tier.get(index) is None
    assert tier.used == 0


def test_what_is_held_is_a_copy_and_so_is_what_comes_back():
    tier = OnDevice(torch.device("cpu"), MB)
    sample = {"x": torch.zeros(3), "label": 1, "name": "a"}
    tier.moved(0, sample)["x"][:] = 7
    tier.get(0)["x"][:] = 7
    assert tier.get(0)["x"].tolist() == [0, 0, 0]
    assert tier.used == 13


def test_another_process_holds_nothing():
    tier = OnDevice(torch.device("cpu"), MB)
    tier.moved(0, torch.zeros(3))
    assert pickle.loads(pickle.dumps(tier)).get(0) is None


def by_tier(cached):
    cached.forget_hits()
    epoch(cached)
    return [share for share in cached.hits().values() if share]


def test_what_lies_on_the_device_takes_no_room_in_memory_or_on_disk(tmp_path):
    source = Numbers(size=100)
    disk = table_bytes(40) + 15 * 950
    options = {"device": 10 * 800, "on": "cpu", "disk": disk, "path": tmp_path}
    cached = Tiered(source, ram=10 * 960 + 40 * 16 + 16, **options)
    epoch(cached)
    shares = by_tier(cached)
    assert shares == [10, *shares[1:]]
    assert shares[1] >= 9
    assert sum(shares[:3]) >= 30


def test_nor_does_it_when_it_comes_from_disk(tmp_path):
    """A second run is warm: all of it is on disk, also what the first had on the device."""
    options = {"ram": MB, "device": 10 * 800, "on": "cpu", "disk": MB, "path": tmp_path}
    epoch(Tiered(Numbers(size=100), **options))
    again = Tiered(Numbers(size=100), **options)
    epoch(again)
    assert again.hits()["disk"] == 40
    without = Tiered(Numbers(size=100), ram=MB)
    epoch(without)
    assert again.used["ram"] == pytest.approx(0.75 * without.used["ram"], rel=0.1)
    assert by_tier(again) == [10, 30]


def test_workers_keep_in_memory_what_lies_on_a_device_they_cannot_reach():
    cached = Tiered(Numbers(), ram=MB, device=MB, on="cpu")
    epoch(cached)
    assert by_tier(cached) == [40]
    epoch(cached, num_workers=1)
    cached.forget_hits()
    epoch(cached, num_workers=1)
    assert cached.hits() == {"device": 0, "ram": 40, "disk": 0, "source": 0}
