"""Batches of any nesting; what a tensor is makes no difference here."""

import dataclasses
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from types import SimpleNamespace

import pytest

from hotlap.data import nests


class Tensor:
    def __init__(self, name):
        self.name = name


TORCH = SimpleNamespace(Tensor=Tensor)
A, B = Tensor("a"), Tensor("b")
Pair = namedtuple("Pair", "first second")


class Encoding(OrderedDict):
    pass


@dataclasses.dataclass
class Batch:
    images: object
    name: str = "mine"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    images: object


class PackedSequence(namedtuple("PackedSequence", "data batch_sizes")):
    pass


def moved(tensor):
    return Tensor(tensor.name.upper())


def names(value):
    return [tensor.name for tensor in nests.tensors(TORCH, value)]


NESTS = [
    A,
    [A, B],
    (A, [B, "text", None]),
    {"a": A, "rest": {"b": B}},
    Pair(A, (B,)),
    Encoding(a=A, b=B),
    defaultdict(list, a=A, b=[B]),
    UserDict(a=A, b=B),
    Batch(images=[A, B]),
    Frozen(images={"a": A, "b": B}),
    [Batch(images=A), Frozen(images=B)],
]


@pytest.mark.parametrize("value", NESTS, ids=lambda value: type(value).__name__)
def test_every_tensor_is_found_and_replaced_and_all_else_stays(value):
    before = names(value)
    assert before in (["a"], ["a", "b"])
    other = nests.replaced(TORCH, value, moved)
    assert names(other) == [name.upper() for name in before]
    assert names(value) == before
    assert type(other) is type(value)


def test_what_is_no_tensor_is_the_same_object():
    thing = object()
    other = nests.replaced(TORCH, {"a": A, "thing": thing}, moved)
    assert other["thing"] is thing
    batch = nests.replaced(TORCH, Batch(images=A), moved)
    assert batch.name == "mine"
    assert nests.replaced(TORCH, defaultdict(list, a=A), moved)["missing"] == []


@pytest.mark.parametrize(
    "value",
    [{"x": 1}, Batch(images=None), UserDict(a=1), {A}, PackedSequence(A, B), Batch, "text", 1.5],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_nest_without_tensors_or_of_an_unknown_kind_is_the_same_object(value):
    assert nests.replaced(TORCH, value, moved) is value


def test_nests_without_an_end_are_followed_to_a_depth_only():
    endless = [A]
    endless.append(endless)
    assert names(endless) == ["a"] * nests.DEPTH
    assert names(nests.replaced(TORCH, endless, moved)) == ["A"] * nests.DEPTH
