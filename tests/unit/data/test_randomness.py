"""Whether random numbers were drawn is seen, whoever drew them."""

import itertools
import pickle
import random
import sys

import pytest
import torch

from hotlap.data import randomness

numpy = pytest.importorskip("numpy")

SEEDS = itertools.count(17)
DRAWS = {
    "torch": lambda: torch.rand(1),
    "torch, a normal number": lambda: torch.randn(1),
    "torch, a seed": lambda: torch.manual_seed(next(SEEDS)),
    "random": random.random,
    "random, a normal number": lambda: random.gauss(0, 1),
    "numpy": numpy.random.rand,
    "numpy, a normal number": numpy.random.randn,
    "numpy, a seed": lambda: numpy.random.seed(next(SEEDS)),
    "numpy, an order": lambda: numpy.random.permutation(3),
    "numpy, a generator without a seed": lambda: numpy.random.RandomState().rand(),
    "numpy, a new one without a seed": lambda: numpy.random.default_rng().random(),
    "numpy, one that is seeded later": lambda: numpy.random.RandomState().seed(3),
    "the system": lambda: random.SystemRandom().random(),
}
SEEDED = {
    "RandomState": lambda: numpy.random.RandomState(3).randn(),
    "RandomState by name": lambda: numpy.random.RandomState(seed=3).randn(),
    "default_rng": lambda: numpy.random.default_rng(3).random(),
    "random": lambda: random.Random(3).random(),
    "torch": lambda: torch.rand(1, generator=torch.Generator().manual_seed(3)),
}


@pytest.fixture(autouse=True)
def own_numbers():
    with randomness.restored():
        randomness.reseed(5)
        yield


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_each_draw_is_seen(draw):
    for _ in range(5):  # every other normal number is one that was left over
        before = randomness.state()
        assert randomness.state() == before
        draw()
        assert randomness.state() != before


@pytest.mark.parametrize("draw", SEEDED.values(), ids=SEEDED.keys())
def test_a_generator_that_is_made_with_a_seed_is_no_draw(draw):
    before = randomness.state()
    draw()
    assert randomness.state() == before


def test_one_with_a_seed_does_not_hide_one_without():
    before = randomness.state()
    made = [numpy.random.RandomState(3), numpy.random.RandomState(), numpy.random.RandomState(4)]
    assert len({one.rand() for one in made}) == 3
    assert randomness.state() != before


def test_what_numpy_seeds_itself_with_is_a_plain_number_elsewhere():
    randomness.state()
    entropy = numpy.random.SeedSequence().entropy
    assert type(pickle.loads(pickle.dumps(entropy))) is int


def test_a_normal_number_that_was_left_over_is_seen_when_it_goes():
    numpy.random.randn()
    before = randomness.state()
    numpy.random.randn()
    assert randomness.state() != before, "no word of the generator was used for it"


def test_another_generator_of_numpy_is_watched_too():
    plain = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(numpy.random.PCG64(3))
    try:
        before = randomness.state()
        assert randomness.state() == before
        numpy.random.rand()
        assert randomness.state() != before
    finally:
        numpy.random.set_bit_generator(plain)


def test_without_numpy_nothing_is_asked_of_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy")
    before = randomness.state()
    assert randomness.state() == before
    random.random()
    assert randomness.state() != before


def test_a_numpy_that_does_not_show_its_generator_is_asked(monkeypatch):
    monkeypatch.delattr(numpy.random, "get_bit_generator")
    before = randomness.state()
    assert randomness.state() == before
    numpy.random.randn()
    middle = randomness.state()
    assert middle != before
    numpy.random.randn()
    assert randomness.state() != middle
