"""What torch.profiler hands out, read event by event, and how much of it."""

from types import SimpleNamespace

import pytest
import torch
from test_kernels import MAIN, ONE_STEP, boundaries, host, mark

from hotlap.probes import kernels


class KinetoEvent:
    def __init__(self, **values):
        self.values = values

    def __getattr__(self, name):
        if name not in self.values:
            raise AttributeError(name)
        return lambda: self.values[name]


def raw(event):
    name, _, start, end, thread, correlation = event
    times = {"start_ns": start, "duration_ns": end - start, "start_thread_id": thread}
    return KinetoEvent(name=name, device_type="CPU", correlation_id=correlation, **times)


def test_of_more_events_than_can_be_read_the_last_steps_are_taken(monkeypatch):
    events = [*boundaries(0, 1, 2, 3), *[mark("forward", at, at + 0.9) for at in range(3)]]
    events += [host("aten::mm", at + 0.1, at + 0.1 * (at + 2)) for at in range(3)]
    found = [raw(event) for event in events]
    assert kernels.summarize_what_fits(found, 3)["steps"] == 3
    monkeypatch.setattr(kernels, "MOST_EVENTS", 7)
    fitting = kernels.summarize_what_fits(found, 3)
    assert (fitting["steps"], fitting["operations"]) == (2, {"forward": 1.0})
    assert fitting["operator_seconds"]["forward"] == pytest.approx(0.25)
    monkeypatch.setattr(kernels, "MOST_EVENTS", 4)
    assert kernels.summarize_what_fits(found, 3)["steps"] == 1


def test_a_step_of_more_events_than_can_be_read_is_given_up_and_said(monkeypatch):
    monkeypatch.setattr(kernels, "MOST_EVENTS", 3)
    found = kernels.summarize_what_fits([raw(event) for event in ONE_STEP], 1)
    assert found == {"steps": 0, "problem": "a step has more than 3 events"}


def test_the_probe_knows_when_it_has_seen_plenty_of_operations(monkeypatch):
    monkeypatch.setattr(kernels, "PLENTY_OF_NODES", 10)
    weight = torch.ones(1, requires_grad=True)
    probe = kernels.KernelProbe(torch, None)
    for _ in range(9):
        weight * 2
    few = probe.has_plenty()
    weight * 2
    plenty = probe.has_plenty()
    probe.abandon()
    assert (few, plenty) == (False, True)


def test_of_a_device_that_the_profiler_is_blind_to_nothing_is_told_from_the_host_alone():
    device = SimpleNamespace(kind="npu", activity=lambda: None, unseen=lambda: "it sees nothing")
    probe = kernels.KernelProbe(torch, device)
    for _ in range(3):
        probe.range("step")()
        torch.ones(3) + 1
    assert probe.finish(2) == {"steps": 0, "problem": "it sees nothing"}


def test_events_of_old_and_new_torch_are_read_alike():
    common = {"name": "aten::mm", "correlation_id": 5, "start_thread_id": MAIN}
    new = KinetoEvent(device_type="DeviceType.CPU", start_ns=7000, duration_ns=2000, **common)
    old = KinetoEvent(device_type="DeviceType.CPU", start_us=7, duration_us=2, **common)
    assert kernels._read(new) == kernels._read(old) == ("aten::mm", False, 7000, 9000, MAIN, 5)
    on_device = KinetoEvent(device_type="DeviceType.CUDA", start_ns=1, duration_ns=2, **common)
    assert kernels._read(on_device) == ("aten::mm", True, 1, 3, 0, 5)


def test_an_allocation_is_read_with_its_bytes():
    event = KinetoEvent(
        name="[memory]",
        device_type="DeviceType.CPU",
        start_ns=7,
        duration_ns=0,
        start_thread_id=MAIN,
        correlation_id=0,
        nbytes=-4096,
    )
    assert kernels._read(event) == ("[memory]", False, 7, 7, MAIN, -4096)
