"""What the device tier holds, and what it leaves to others."""

import pickle

import numpy
import torch
from numbers_kept import MB, Numbers
from PIL import Image

from hotlap.data.ondevice import OnDevice
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
