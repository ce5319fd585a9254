"""DeviceLoader: which batch is copied, waited for and handed out when. A device is played."""

import contextlib
import copy
import gc
import warnings
import weakref
from collections import UserList, deque, namedtuple
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.data import loader as module
from hotlap.data import nests
from hotlap.data.loader import DeviceLoader

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
LOG = []


class Tensor:
    is_nested = False

    def __init__(self, name, *, device=CPU, pinned=True, layout="strided"):
        self.name, self.device, self.pinned, self.layout = name, device, pinned, layout
        self.is_cuda = device.type == "cuda"

    def is_pinned(self):
        return self.pinned

    def numel(self):
        return 1

    def to(self, device, non_blocking=False):
        LOG.append(f"copy {self.name}" + ("" if non_blocking else ", host waits"))
        return Tensor(self.name, device=device, layout=self.layout)

    def record_stream(self, stream):
        assert self.layout == "strided"
        LOG.append(f"{self.name} in use on {stream.name}")


class Event:
    def record(self, stream):
        self.stream = stream
        LOG.append(f"event on {stream.name}")

    def synchronize(self):
        LOG.append("host waits for the copy")


class Side:
    name = "side"

    def __init__(self, device):
        assert device == CUDA
        LOG.append("new stream")


class Main:
    name = "main"

    def wait_event(self, event):
        LOG.append(f"main waits for {event.stream.name}")


FAKE = SimpleNamespace(
    Tensor=Tensor,
    device=torch.device,
    strided="strided",
    cuda=SimpleNamespace(
        Stream=Side,
        Event=Event,
        stream=contextlib.nullcontext,
        current_stream=lambda device: Main(),
        current_device=lambda: 0,
    ),
)


class Workers:
    """Plays torch's DataLoader with workers: `ready` says how many batches have arrived."""

    num_workers = 2

    def __init__(self, *batches, ready=99, pin_memory=True):
        self.batches, self.ready, self.pin_memory = batches, ready, pin_memory
        self.asked = 0

    def __iter__(self):
        return Arriving(self)


class Arriving:
    def __init__(self, loader):
        self.loader, self.left = loader, list(loader.batches)
        self._task_info, self._rcvd_idx = {}, 0
        left = self.left
        self._data_queue = SimpleNamespace(empty=lambda: not (left and loader.ready))

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.loader.asked += 1
        self.loader.ready -= 1
        batch = self.left.pop(0)
        if isinstance(batch, Exception):
            raise type(batch)(*batch.args)
        return batch


@pytest.fixture
def no_device():
    """Torch is the real one."""


@pytest.fixture(autouse=True)
def played(request, monkeypatch):
    LOG.clear()
    if "no_device" not in request.fixturenames:
        monkeypatch.setattr(module, "torch", FAKE)
        monkeypatch.setattr(module, "DataLoader", Workers)


def named(*names):
    return [[Tensor(name)] for name in names]


def test_a_batch_is_recorded_on_the_stream_that_uses_it_after_its_copy_was_waited_for():
    batches = iter(DeviceLoader(Workers(*named("a", "b")), "cuda"))
    (first,) = next(batches)
    assert (first.name, first.device) == ("a", CUDA)
    begun = ["new stream", "copy a", "event on side", "main waits for side", "a in use on main"]
    assert [*begun, "copy b", "event on side"] == LOG
    LOG.clear()
    assert next(batches)[0].name == "b"
    assert LOG == ["main waits for side", "b in use on main"]
    with pytest.raises(StopIteration):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_as_many_batches_as_wanted_are_on_their_way(ahead):
    source = Workers(*named(*"abcdef"))
    batches = iter(DeviceLoader(source, "cuda", ahead=ahead))
    next(batches)
    assert source.asked == 1 + ahead
    next(batches)
    assert source.asked == 2 + ahead
    assert [one.name for (one,) in batches] == list("cdef")


def test_a_batch_that_is_not_there_is_not_waited_for():
    source = Workers(*named(*"abc"), ready=1)
    batches = iter(DeviceLoader(source, "cuda"))
    next(batches)
    assert source.asked == 1
    source.ready = 1
    assert next(batches)[0].name == "b"
    assert source.asked == 2


def test_of_a_source_that_cannot_be_asked_one_batch_is_on_its_way():
    asked = []

    def source():
        for batch in named(*"abcd"):
            asked.append(batch[0].name)
            yield batch

    batches = iter(DeviceLoader(source(), "cuda", ahead=3))
    next(batches)
    assert asked == ["a", "b"]
    assert [one.name for (one,) in batches] == list("bcd")


def test_memory_the_source_may_write_to_again_is_read_before_the_next_batch_is_asked_for():
    def source():
        for batch in named("a", "b"):
            LOG.append("asked")
            yield batch

    next(iter(DeviceLoader(source(), "cuda")))
    assert LOG[1:4] == ["asked", "copy a", "event on side"]
    assert LOG[-4:-1] == ["host waits for the copy", "asked", "copy b"]


def test_every_batch_comes_once_and_in_order_however_they_arrive():
    source = Workers(*named(*"abcdefg"), ready=0)
    seen = []
    for number, (one,) in enumerate(DeviceLoader(source, "cuda")):
        seen.append(one.name)
        source.ready = number % 3
    assert seen == list("abcdefg")


def test_a_problem_of_the_loader_comes_in_its_turn_and_the_rest_after_it():
    source = Workers([Tensor("a")], [Tensor("b")], KeyError("missing.jpg"), [Tensor("d")])
    batches = iter(DeviceLoader(source, "cuda", ahead=4))
    assert [next(batches)[0].name for _ in range(2)] == ["a", "b"]
    with pytest.raises(KeyError, match=r"missing\.jpg") as caught:
        next(batches)
    assert "raise type(batch)" in str(caught.value.__cause__)  # where it happened is told
    assert [one.name for (one,) in batches] == ["d"]


def test_two_iterations_at_once_have_their_own_batches_and_one_stream():
    loader = DeviceLoader(Workers(*named(*"abc")), "cuda")
    pairs = [(one.name, other.name) for (one,) in loader for (other,) in loader]
    assert pairs == [(one, other) for one in "abc" for other in "abc"]
    assert LOG.count("new stream") == 1


def test_a_problem_that_was_not_met_early_keeps_its_traceback():
    with pytest.raises(KeyError) as caught:
        next(iter(DeviceLoader(Workers(KeyError("missing.jpg")), "cuda")))
    assert caught.traceback[-1].name == "__next__"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("last", [[Tensor("c")], KeyError("c")])
def test_breaking_out_of_an_epoch_leaves_nothing_behind(last):
    loader = DeviceLoader(Workers([Tensor("a")], [Tensor("b")], last), "cuda")
    gc.disable()
    try:
        batches = iter(loader)
        next(batches)
        gone = [weakref.ref(batches), weakref.ref(batches._source)]
        del batches
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_a_generator_that_is_broken_out_of_is_closed():
    closed = []

    def source():
        try:
            yield from named(*"abc")
        finally:
            closed.append(True)

    for _ in DeviceLoader(source(), "cuda"):
        break
    assert closed == [True]


def test_objects_that_move_themselves_are_moved_when_it_is_their_turn():
    class Graph:
        def to(self, device):
            LOG.append("graph moves")
            return ("graph", device)

    batch = {"x": Tensor("x"), "graph": Graph(), "name": "seven", "n": 7, "kind": Graph}
    got = next(iter(DeviceLoader(Workers(batch), "cuda")))
    assert got["graph"] == ("graph", CUDA)
    assert (got["name"], got["n"], got["kind"]) == ("seven", 7, Graph)
    assert LOG.index("graph moves") > LOG.index("main waits for side")


def test_sparse_tensors_and_those_of_another_device_are_moved_when_it_is_their_turn():
    other = Tensor("other", device=torch.device("cuda", 1))
    batch = [Tensor("sparse", layout="coo"), other, Tensor("here", device=CUDA)]
    sparse, moved, here = next(iter(DeviceLoader(Workers(batch), "cuda:0")))
    assert sparse.device == moved.device == CUDA
    assert here is batch[2]
    copies = [entry for entry in LOG if entry.startswith("copy")]
    assert copies == ["copy sparse, host waits", "copy other, host waits"]
    assert LOG.index(copies[0]) > LOG.index("main waits for side")


def unpinned(count):
    return [[Tensor(str(number), pinned=False)] for number in range(count)]


def test_batches_that_are_not_pinned_are_waited_for_and_it_is_said_once():
    loader = DeviceLoader(Workers(*unpinned(3), pin_memory=False), "cuda")
    with pytest.warns(UserWarning, match="pin_memory=True") as told:
        assert len([list(loader), list(loader)]) == 2
    assert len(told) == 1
    assert told[0].filename == __file__
    assert LOG.count("copy 0, host waits") == 2


def test_a_type_that_cannot_be_pinned_is_blamed_where_the_loader_does_pin():
    with pytest.warns(UserWarning, match=r"no pin_memory\(\) method"):
        list(DeviceLoader(Workers(*unpinned(1)), "cuda"))


def test_pinning_is_not_advised_where_it_would_be_the_trainings_own_work():
    source = Workers(*unpinned(2), pin_memory=False)
    source.num_workers = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(DeviceLoader(source, "cuda"))) == 2


def test_the_attributes_of_the_loader_are_read_and_set_there():
    epochs = []
    source = Workers(*named("a"))
    source.sampler = SimpleNamespace(set_epoch=epochs.append)
    source.set_epoch = epochs.append
    loader = DeviceLoader(source, "cuda")
    loader.set_epoch(3)
    loader.sampler.set_epoch(4)
    loader.mine = "kept"
    assert (epochs, source.mine, loader.mine) == ([3, 4], "kept", "kept")
    loader.ahead = 5
    assert not hasattr(source, "ahead")
    assert not hasattr(loader, "missing")
    assert copy.copy(loader).num_workers == 2


def test_the_state_of_the_loader_inside_is_not_taken_for_that_of_the_training():
    source = Workers()
    source.state_dict = dict
    loader = DeviceLoader(source, "cuda")
    assert not hasattr(loader, "state_dict")
    with pytest.raises(AttributeError, match="ahead of the training"):
        loader.load_state_dict({})


def test_nothing_ahead_is_refused():
    with pytest.raises(ValueError, match="ahead is 0"):
        DeviceLoader([], "cuda", ahead=0)


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("workers", [0, 1])
def test_on_a_cpu_the_batches_are_those_of_the_loader(workers):
    plain = DataLoader(TensorDataset(torch.arange(10)), batch_size=4, num_workers=workers)
    loader = DeviceLoader(plain, "cpu")
    for _ in range(2):
        assert [x.tolist() for (x,) in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3
    assert (loader.dataset, loader.batch_size, loader.sampler) == (plain.dataset, 4, plain.sampler)
    batches = named("a", "b")
    assert all(a is b for a, b in zip(DeviceLoader(batches, "cpu"), batches, strict=True))


Pair = namedtuple("Pair", "x y")


@dataclass
class Batch:
    pair: Pair
    packed: object
    name: str = "mine"


@pytest.mark.usefixtures("no_device")
def test_on_other_devices_every_type_of_batch_is_moved_when_it_is_asked_for():
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    batch = Batch(pair=Pair(torch.ones(2), [torch.ones(1), "text", 1.5, None]), packed=packed)
    (got,) = DeviceLoader([batch], "meta")
    assert got.pair.x.device.type == got.pair.y[0].device.type == "meta"
    assert got.packed.data.device.type == "meta"
    assert got.pair.y[1:] == ["text", 1.5, None]
    assert (got.name, type(got), type(got.pair)) == ("mine", Batch, Pair)
    assert batch.pair.x.device == CPU


class Pairs(list):
    pass


DEEP = [[[[[[[[torch.ones(2)]]]]]]]]


@pytest.mark.parametrize(
    "batch",
    [
        Pairs([torch.ones(2)]),
        MappingProxyType({"a": torch.ones(2)}),
        deque([torch.ones(2)]),
        UserList([torch.ones(2)]),
        DEEP,
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_batches_of_every_kind_come_on_the_device(batch):
    (moved,) = DeviceLoader([batch], "meta")
    assert type(moved) is type(batch)
    assert [tensor.device.type for tensor in nests.tensors(torch, moved)] == ["meta"]
    assert [tensor.device.type for tensor in nests.tensors(torch, batch)] == ["cpu"]
