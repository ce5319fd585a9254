"""The tiered cache keeps nothing that is random, wherever in the data set it is."""

import pickle
import random

import numpy
import pytest
import shaking
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
    "numpy, without a seed": lambda: float(numpy.random.default_rng().random()),
    "the system": lambda: random.SystemRandom().random(),
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


class Shaken(Numbers):
    """Its transform draws from a generator of its own, which may be of any library."""

    def __init__(self, draw, generator):
        super().__init__()
        self.transform = Drawing(draw, generator)

    def __getitem__(self, index):
        return self.transform(torch.tensor(float(index)))


class Drawing:
    def __init__(self, draw, generator):
        self.draw, self.generators = draw, [generator]

    def __call__(self, value):
        return value + self.draw(self.generators[0])


OWN = {
    "torch": (lambda one: torch.rand((), generator=one), torch.Generator),
    "random": (lambda one: one.random(), lambda: random.Random(0)),
    "numpy": (lambda one: one.random(), lambda: numpy.random.default_rng(0)),
    "numpy, old": (lambda one: one.randn(), lambda: numpy.random.RandomState(0)),
}


@pytest.mark.parametrize(("draw", "make"), OWN.values(), ids=OWN)
def test_a_generator_of_a_transforms_own_draws_what_it_would_without_the_cache(draw, make):
    plain, cached = Shaken(draw, make()), Tiered(Shaken(draw, make()), ram=MB)
    for _ in range(2):
        assert [cached[index] for index in range(40)] == [plain[index] for index in range(40)]
    assert cached.hits()["ram"] == 40


class Rarely(Numbers):
    """Draws from a generator of its own for a few samples, none of which is looked at first."""

    def __init__(self, draw, make):
        super().__init__(count=100)
        self.draw, self.generator = draw, make()

    def __getitem__(self, index):
        value = torch.tensor(float(index))
        return value + self.draw(self.generator) if index % 20 == 7 else value


def epochs(dataset, batch_size):
    loader = DataLoader(dataset, batch_size=batch_size)
    return [[float(value) for batch in loader for value in batch] for _ in range(3)]


@pytest.mark.filterwarnings("ignore:making")
@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize(("draw", "make"), OWN.values(), ids=OWN)
def test_a_sample_that_draws_from_a_generator_of_its_own_is_not_kept(draw, make, batch_size):
    cached = Tiered(Rarely(draw, make), ram=MB)
    assert epochs(cached, batch_size) == epochs(Rarely(draw, make), batch_size)
    cached.forget_hits()
    list(DataLoader(cached, batch_size=batch_size))
    assert cached.hits()["source"] == cached.random_samples == 5


class Late(Rarely):
    """Makes its generator with the first sample that needs it."""

    def __init__(self):
        super().__init__(lambda one: one.random(), lambda: None)

    def __getitem__(self, index):
        if index % 20 == 7 and self.generator is None:
            self.generator = numpy.random.default_rng(0)
        return super().__getitem__(index)


@pytest.mark.filterwarnings("ignore:making")
@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_generator_that_is_made_late_is_seen(batch_size):
    assert epochs(Tiered(Late(), ram=MB), batch_size) == epochs(Late(), batch_size)


class Named(Numbers):
    """Its code takes the generator from another module."""

    def __getitem__(self, index):
        value = torch.tensor(float(index))
        return value + shaking.shaken() if index == 7 else value


@pytest.mark.filterwarnings("ignore:making")
def test_a_generator_of_another_module_is_seen():
    cached = Tiered(Named(count=100), ram=MB)
    assert float(cached[7]) != float(cached[7])
    assert float(cached[8]) == float(cached[8])
    assert cached.random_samples == 2


class Noise:
    source = numpy.random.default_rng(0)


class OfAClass(Numbers):
    def __getitem__(self, index):
        value = torch.tensor(float(index))
        return value + Noise.source.random() if index == 7 else value


@pytest.mark.filterwarnings("ignore:making")
def test_a_generator_of_a_class_that_the_code_names_is_seen():
    cached = Tiered(OfAClass(count=100), ram=MB)
    assert float(cached[7]) != float(cached[7])
    assert float(cached[8]) == float(cached[8])


class ByNumber(Rarely):
    """Sets its generator by the number of the sample: those that draw are the same each time."""

    def __getitem__(self, index):
        if index % 20 == 7:
            self.generator.seed(index)
        return super().__getitem__(index)


def test_a_sample_that_sets_its_generator_by_its_number_is_kept():
    make = OWN["random"]
    cached = Tiered(ByNumber(*make), ram=MB)
    assert epochs(cached, 10) == epochs(ByNumber(*make), 10)
    assert (cached.random_samples, cached.hits()["source"]) == (0, 100)


@pytest.mark.filterwarnings("ignore:making")
def test_a_copy_for_a_worker_watches_its_own_generators():
    original = Tiered(Rarely(numpy.random.Generator.random, seeded), ram=MB)
    cached = pickle.loads(pickle.dumps(original))
    assert float(cached[7]) != float(cached[7])


def seeded():
    return numpy.random.default_rng(0)
