"""Kinds of devices: what each torch module offers is used, and nothing more is asked of it."""

from types import SimpleNamespace

import pytest
import torch

from hotlap.probes import accelerators
from hotlap.probes.accelerators import Accelerator

XPU = torch.device("xpu:1")


class Event:
    def __init__(self, enable_timing=False):
        self.at = None

    def record(self, stream):
        assert stream == "the one that trains"
        self.at = 1.0

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return other.at - self.at


class Stream(torch.Stream):
    """As torch.xpu has them: `==` is written in Python, `!=` is torch.Stream's."""

    def __eq__(self, other):
        return isinstance(other, torch.Stream) and super().__eq__(other)

    def __hash__(self):
        return 0


class Untimed(Event):
    def elapsed_time(self, other):
        raise NotImplementedError("this backend does not support event timing")


def offering(**module):
    """As much of torch as is asked; `module` is what it has for the kind."""
    return SimpleNamespace(
        xpu=SimpleNamespace(current_stream=lambda device: "the one that trains", **module),
        Tensor=torch.Tensor,
        profiler=SimpleNamespace(
            ProfilerActivity=SimpleNamespace(CPU="cpu", CUDA="cuda", XPU="xpu"),
            supported_activities=lambda: {"cpu", "xpu"},
        ),
    )


def on(stub, device=XPU):
    return Accelerator(stub, device)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [((), None), (("cpu",), None), (("cpu", "meta"), None), (("cpu", "meta", "xpu"), "xpu")],
)
def test_the_device_is_the_first_that_is_not_the_cpu(devices, expected):
    tensors = [SimpleNamespace(device=torch.device(name)) for name in devices]
    found = accelerators.of(torch, tensors[:1], tensors[1:])
    assert (found.kind if found else None) == expected


def test_events_that_tell_time_are_the_clock():
    events = on(offering(Event=Event)).events()
    assert events().elapsed_time(events()) == 0.0


@pytest.mark.parametrize("module", [{}, {"Event": Untimed}, {"Event": object}])
def test_without_events_that_tell_time_the_hosts_clock_is_left(module):
    assert on(offering(**module)).events() is None


def test_a_kind_that_torch_has_no_module_for_is_still_named():
    device = on(SimpleNamespace(Tensor=torch.Tensor, profiler=offering().profiler))
    assert device.described() == {"device": "xpu:1", "device_name": "xpu"}
    assert (device.events(), device.counters(), device.is_capturing()) == (None, None, None)


def test_a_device_tells_its_name_and_size_where_it_can():
    properties = SimpleNamespace(name="Max 1550", total_memory=64 << 30)
    stub = offering(get_device_properties=lambda device: properties, device_count=lambda: 4)
    found = on(stub).described()
    assert (found["device"], found["device_name"], found["devices"]) == ("xpu:1", "Max 1550", 4)
    assert found["device_bytes"] == 64 << 30
    assert "capability" not in found


def counting(answer):
    return {
        "memory_allocated": answer,
        **dict.fromkeys(accelerators.COUNTERS[1:], lambda device: 0),
    }


def test_memory_is_counted_by_whoever_counts_all_of_it():
    def refuse(device):
        raise RuntimeError("Allocator for xpu is not a DeviceAllocator.")

    stub = offering(**counting(lambda device: 0))
    assert on(stub).counters() is stub.xpu
    assert on(offering(memory_allocated=lambda device: 0)).counters() is None
    stub = offering(**counting(refuse))
    assert on(stub).counters() is None
    stub.accelerator = SimpleNamespace(**counting(lambda device: 0))
    assert on(stub).counters() is stub.accelerator


def test_the_profiler_is_asked_for_what_it_can_see():
    assert on(offering()).activity() == "xpu"
    assert on(offering(), torch.device("hpu")).activity() is None
    assert on(offering(), torch.device("cuda")).activity() is None  # torch was built without it


def test_whether_a_tensor_lies_there_is_asked_as_cheaply_as_it_can_be():
    assert not on(offering()).holds()(torch.zeros(1))
    own = SimpleNamespace(device=SimpleNamespace(type="npu"))
    stub = SimpleNamespace(Tensor=SimpleNamespace(), npu=None)
    assert Accelerator(stub, SimpleNamespace(type="npu")).holds()(own)


@pytest.mark.parametrize("kind", [torch.Stream, Stream])
def test_a_stream_that_denies_to_be_other_than_none_is_recorded_on(kind):
    stream = kind(stream_id=0, device_index=0, device_type=12)
    assert (stream != None) is False  # noqa: E711
    recorded = []

    class Recording(Event):
        def record(self, on):
            recorded.append(on)
            self.at = 1.0

    stub = offering(Event=Recording)
    stub.xpu.current_stream = lambda device: stream
    events = on(stub).events()
    assert events is not None
    events()
    assert all(one is stream for one in recorded)


def test_a_module_that_cannot_say_whether_it_is_capturing_is_not_asked_again():
    asked = []

    def fails():
        asked.append(1)
        raise RuntimeError("not initialised")

    assert on(offering(is_current_stream_capturing=fails)).is_capturing() is None
    assert on(offering()).is_capturing() is None
    answers = on(offering(is_current_stream_capturing=lambda: False)).is_capturing()
    assert answers is not None
    assert answers() is False


def test_devices_are_counted_where_nothing_else_is_told_of_them():
    assert on(offering(device_count=lambda: 8)).described()["devices"] == 8
    named = offering(get_device_properties=lambda device: SimpleNamespace(name="Max 1550"))
    assert on(named).described()["device_name"] == "Max 1550"
