"""The tiered cache keeps nothing that is random, wherever in the data set it is."""

import random

import numpy
import pytest
import torch
from numbers_kept import MB, Numbers
from torch.utils.data import DataLoader

from hotlap.data.tiered import Tiered

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
DRAWS = {
    "torch": lambda: float(torch.rand(())),
    "random": random.random,
    "numpy": lambda: float(numpy.random.rand()),
    "numpy, every second from its store": lambda: float(numpy.random.randn()),
}


class Sometimes(Numbers):
    """Random at a few indices, none of which is looked at first."""

    def __init__(self, draw, together=False):
        super().__init__(count=100)
        self.draw = draw
        if together:
            self.__getitems__ = lambda indices: [self[at] for at in indices]

    def __getitem__(self, index):
        value = torch.tensor(float(index))
        return value + self.draw() if index % 20 == 7 else value


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_sample_that_draws_random_numbers_is_not_kept(draw, together):
    cached = Tiered(Sometimes(draw, together), ram=MB)
    with pytest.warns(UserWarning, match="draws random numbers") as told:
        epochs = [[float(cached[index]) for index in range(100)] for _ in range(3)]
    assert len(told) == 1
    for index, values in enumerate(zip(*epochs, strict=True)):
        assert len(set(values)) == (3 if index % 20 == 7 else 1)
    assert cached.random_samples == 15
    assert cached.hits()["source"] == 100 + 2 * 5


@pytest.mark.parametrize("together", [False, True])
def test_in_batches_the_others_are_kept_all_the_same(together):
    cached = Tiered(Sometimes(DRAWS["torch"], together), ram=MB)
    with pytest.warns(UserWarning, match="draws random numbers"):
        epochs = [torch.cat(list(DataLoader(cached, batch_size=10))) for _ in range(3)]
    assert (epochs[1] == epochs[2]).sum() == 95
    cached.forget_hits()
    list(DataLoader(cached, batch_size=10))
    assert cached.hits()["source"] == 5


@pytest.mark.filterwarnings("ignore:making")
def test_samples_that_are_not_kept_come_on_the_device_too():
    cached = Tiered(Sometimes(DRAWS["torch"]), ram=0, device=MB, on="cpu")
    assert float(cached[7]) != float(cached[7])
    assert cached.used["device"] == 0
