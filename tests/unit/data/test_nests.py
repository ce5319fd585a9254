"""Batches of any nesting; what a tensor is makes no difference here."""

import dataclasses
from collections import OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace

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


class Listed(list):
    pass


class Tupled(tuple):
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
    Listed([A, B]),
    Tupled([A, B]),
    MappingProxyType({"a": A, "b": B}),
    deque([A, B], maxlen=2),
    UserList([A, {"b": B}]),
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
    [
        {"x": 1},
        Batch(images=None),
        UserDict(a=1),
        {A},
        PackedSequence(A, B),
        Batch,
        "text",
        1.5,
        range(3),
        UserList("ab"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_nest_without_tensors_or_of_an_unknown_kind_is_the_same_object(value):
    assert nests.replaced(TORCH, value, moved) is value


def test_a_nest_that_is_in_itself_has_an_end():
    endless = [A]
    endless.append(endless)
    assert names(endless) == ["a"]
    other = nests.replaced(TORCH, endless, moved)
    assert other[0].name == "A"
    assert other[1] is endless


def deep(value, levels):
    for _ in range(levels):
        value = [value]
    return value


def test_depth_does_not_matter():
    assert names(deep(A, 100)) == ["a"]
    assert names(nests.replaced(TORCH, deep({"a": A}, 100), moved)) == ["A"]


class Wholly(UserList):
    """Knows itself how it is moved."""

    def to(self, device):
        return ("moved", device)


def test_what_moves_as_a_whole_is_left_to_that():
    assert nests.replaced(TORCH, Wholly([A]), moved, unknown=lambda one: one.to("there")) == (
        "moved",
        "there",
    )
    assert names(Wholly([A])) == []


class OfTwo(tuple):
    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


class Looked(Mapping):
    """Made of something else than a dict."""

    def __init__(self, *, a):
        self.a = a

    def __getitem__(self, key):
        return {"a": self.a}[key]

    def __len__(self):
        return 1

    def __iter__(self):
        return iter("a")


def test_what_cannot_be_made_again_becomes_plain():
    assert [one.name for one in nests.replaced(TORCH, OfTwo(A, B), moved)] == ["A", "B"]
    assert nests.replaced(TORCH, Looked(a=A), moved)["a"].name == "A"
