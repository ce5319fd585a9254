from dataclasses import dataclass

import numpy
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from hotlap.probes.batches import samples_in, samples_passed


class Encoding:
    """A batch that is no dict but has values, as tokenizers give."""

    def __init__(self, **values):
        self._values = values

    def values(self):
        return self._values.values()


X = torch.zeros(32, 3, 8, 8)


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (X, 32),
        (numpy.zeros((16, 2)), 16),
        ([X, torch.zeros(32)], 32),
        ((X, torch.zeros(32)), 32),
        ({"pixels": X, "label": torch.zeros(32)}, 32),
        ({"name": "image.png", "pixels": X}, 32),
        (Encoding(ids=torch.zeros(8, 128)), 8),
        ([{"inputs": {"pixels": X}}, torch.zeros(7)], 32),
        (["a", "b", "c"], 3),
        ((["a", "b"], X), 2),
        ([1, 2, 3, 4], 4),
        ((torch.tensor(0.5), X), 32),
        ([torch.zeros(3, 64, 48), torch.zeros(3, 32, 32)], 2),
        (([torch.zeros(1, 8, 8)] * 5, [{"boxes": torch.zeros(7, 4)}] * 5), 5),
        ((torch.zeros(4, 8, 8), torch.zeros(4, 8, 8, 8)), 4),
        ((torch.zeros(16, 8, 8), torch.zeros(16, 8, 8)), 16),
        ([torch.zeros(3, 8, 8)], 3),
    ],
)
def test_samples_are_the_first_dimension_of_the_first_thing_that_has_one(batch, samples):
    assert samples_in(batch) == samples


@pytest.mark.parametrize(
    "batch", ["abc", 5, None, 2.5, torch.tensor(1.0), [], (), {}, {"name": "x"}, object()]
)
def test_a_batch_that_cannot_be_counted_has_no_number(batch):
    assert samples_in(batch) is None


def test_a_batch_nested_without_end_is_given_up():
    batch = []
    batch.append(batch)
    assert samples_in(batch) == 1


@dataclass(slots=True)
class Slotted:
    x: torch.Tensor
    y: torch.Tensor


class HalfFilled:
    __slots__ = ("labels", "x")

    def __init__(self, x):
        self.x = x


def sequences(*lengths, width=8):
    return [torch.zeros(length, width) for length in lengths]


IMAGE = torch.zeros(3, 8, 8)
BOXES = {"boxes": torch.zeros(5, 4)}


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ([(IMAGE, 1)] * 16, 16),
        ([[IMAGE, torch.tensor(1)]] * 16, 16),
        ([{"x": torch.zeros(5, 4)}] * 16, 16),
        (sequences(17, 12, 9, 20), 4),
        (tuple(sequences(17, 12)), 2),
        (pack_sequence(sequences(5, 3)), 2),
        ({"ids": [[1, 2, 3]] * 8}, 8),
        (([BOXES] * 2, [IMAGE] * 2), 2),
        (Slotted(torch.zeros(8, 3), torch.zeros(8)), 8),
        (HalfFilled(torch.zeros(8, 3)), 8),
        ([IMAGE], 1),
        ([("a",) * 8, ("b",) * 8], 8),
        ([(X, torch.zeros(32)), (X, torch.zeros(32))], 32),
    ],
)
def test_a_batch_has_as_many_samples_as_its_loader_was_asked_for(batch, samples):
    assert samples_in(batch, samples) == samples


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ([torch.zeros(5, 64), torch.zeros(5)], 5),
        ([(IMAGE, 1)] * 7, 7),
        ([{"x": torch.zeros(5, 4)}] * 7, 7),
        (sequences(17, 12, 9), 3),
        (sequences(37, 40), 2),
        (pack_sequence(sequences(50, 3)), 2),
        ({"ids": [[1, 2, 3]] * 5}, 5),
        (([BOXES] * 3, [IMAGE] * 3), 3),
        (Slotted(torch.zeros(6, 3), torch.zeros(6)), 6),
    ],
)
def test_the_last_batch_of_an_epoch_may_have_less(batch, samples):
    assert samples_in(batch, 32) == samples


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ([(IMAGE, 1)] * 16, 16),
        ([{"x": torch.zeros(5, 4)}] * 16, 16),
        (sequences(17, 12, 9, 20), 4),
        (pack_sequence(sequences(5, 3)), 2),
        ({"ids": [[1, 2, 3]] * 8}, 8),
        (([BOXES] * 2, [IMAGE] * 2), 2),
        (Slotted(torch.zeros(8, 3), torch.zeros(8)), 8),
        ([("a",) * 8, ("b",) * 8], 8),
        ([(X, torch.zeros(32)), (X, torch.zeros(32))], 32),
        ((sequences(17, 12, 9, 20), sequences(5, 6, 7, 8)), 4),
        (list(zip(sequences(17, 12, 9, 20), sequences(5, 6, 7, 8), strict=True)), 4),
    ],
)
def test_a_loader_that_does_not_know_its_batch_size_is_counted_all_the_same(batch, samples):
    assert samples_in(batch) == samples


@pytest.mark.parametrize("batch", [X, (X, torch.zeros(32)), {"nodes": X, "edges": X}])
def test_more_than_the_loader_was_asked_for_is_no_number(batch):
    assert samples_in(batch, 1) is None


def test_where_time_stands_first_the_second_dimension_tells():
    padded = torch.zeros(25, 10, dtype=torch.long)
    assert samples_in(padded, 10) == 10
    assert samples_in((padded, {"mask": padded}), 10) == 10
    assert samples_in(padded, 11) is None, "ten at most, of eleven?"


def test_of_several_numbers_the_loaders_own_is_taken():
    graphs = {"nodes": torch.zeros(90, 3), "edges": torch.zeros(2, 400), "label": torch.zeros(8)}
    assert samples_in(graphs, 8) == 8
    assert samples_in(graphs, 16) is None, "eight, or two?"


def test_a_model_is_called_with_the_samples_of_its_first_argument_that_has_some():
    assert samples_passed((X, torch.zeros(5)), {}) == 32
    assert samples_passed((2.5, "mean"), {"x": X}) == 32
    assert samples_passed(sequences(20, 15, 20), {}) == 20, "arguments are no samples"
    assert samples_passed((), {}) is None


class Agent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.ReLU(), torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
        )


@pytest.mark.parametrize(
    ("module", "argument", "samples"),
    [
        (Agent(), torch.zeros(4), 1),
        (torch.nn.Linear(4, 2), torch.zeros(4), 1),
        (torch.nn.Linear(1, 2), torch.zeros(4), 4),
        (torch.nn.Linear(4, 2), torch.zeros(4, dtype=torch.long), 4),
        (torch.nn.Linear(4, 2), torch.zeros(4, 4), 4),
        (torch.nn.Linear(4, 2), numpy.zeros(4), 4),
        (torch.nn.Embedding(4, 2), torch.zeros(4, dtype=torch.long), 4),
        (torch.nn.ReLU(), torch.zeros(4), 4),
    ],
)
def test_a_vector_of_what_the_first_layer_takes_is_one_sample(module, argument, samples):
    assert samples_passed((argument,), {}, module) == samples
