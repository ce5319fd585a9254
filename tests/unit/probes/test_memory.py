import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from hotlap.probes.accelerators import Accelerator
from hotlap.probes.memory import (
    MemoryProbe,
    parameters_of,
    process_now,
    process_peak,
    state_bytes,
    unshared,
)

FLOAT = 4


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5))


WEIGHTS = 10 * 20 + 20 + 20 * 5 + 5


def train(model, optimizer, probe, batch=8):
    for _ in range(2):
        optimizer.zero_grad()
        probe.forward_begins()
        loss = model(torch.randn(batch, 10)).sum()
        probe.backward_begins()
        loss.backward()
        probe.gradients_are_there()
        optimizer.step()


def measured(model, optimizer, modules=()):
    probe = MemoryProbe(torch, None, [optimizer], list(modules))
    train(model, optimizer, probe)
    return probe.finish()


def test_parameters_gradients_and_state_of_adam_are_exact(model):
    found = measured(model, torch.optim.Adam(model.parameters()))
    assert found["kind"] == "process"
    assert found["parameters_bytes"] == WEIGHTS * FLOAT
    assert found["gradients_bytes"] == WEIGHTS * FLOAT
    steps = 4 * FLOAT  # one counter for each of the four tensors
    assert found["optimizer_bytes"] == 2 * WEIGHTS * FLOAT + steps


def test_plain_sgd_keeps_no_state_and_momentum_keeps_one_copy(model):
    assert measured(model, torch.optim.SGD(model.parameters(), lr=0.1))["optimizer_bytes"] == 0
    momentum = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    assert measured(model, momentum)["optimizer_bytes"] == WEIGHTS * FLOAT


def test_half_precision_counts_half(model):
    model = model.to(torch.bfloat16)
    assert sum(p.untyped_storage().nbytes() for p in model.parameters()) == WEIGHTS * 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert MemoryProbe(torch, None, [optimizer], []).finish()["parameters_bytes"] == WEIGHTS * 2


def test_tied_weights_are_counted_once():
    first = nn.Linear(10, 10, bias=False)
    second = nn.Linear(10, 10, bias=False)
    second.weight = first.weight
    optimizer = torch.optim.SGD([{"params": first.parameters()}], lr=0.1)
    found = MemoryProbe(torch, None, [optimizer], [first, second]).finish()
    assert found["parameters_bytes"] == 100 * FLOAT


def test_parameters_that_are_views_of_one_storage_are_counted_once():
    flat = torch.zeros(100)
    parts = [nn.Parameter(flat[:60]), nn.Parameter(flat[60:])]
    optimizer = torch.optim.SGD(parts, lr=0.1)
    assert MemoryProbe(torch, None, [optimizer], []).finish()["parameters_bytes"] == 100 * FLOAT


def test_frozen_parameters_and_buffers_of_the_model_are_counted_too():
    model = nn.Sequential(nn.Linear(10, 10, bias=False), nn.BatchNorm1d(10, affine=False))
    model[0].weight.requires_grad_(False)
    head = nn.Linear(10, 1, bias=False)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    found = MemoryProbe(torch, None, [optimizer], [model]).finish()
    buffers = 10 * FLOAT + 10 * FLOAT + 8  # mean, variance, and a counter of eight bytes
    assert found["parameters_bytes"] == (100 + 10) * FLOAT + buffers


def test_the_peak_of_the_process_is_at_least_what_it_holds_now(model):
    found = measured(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert found["peak_bytes"] > found["parameters_bytes"]
    now = process_now()  # the kernel counts both in batches of pages, so nearly is all there is
    assert process_peak() > 0.95 * now > 0
    assert found["reserved_bytes"] is None


def test_on_a_cpu_activations_are_left_to_the_kernels_pass(model):
    found = measured(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert found["activations_bytes"] is None


DEVICE = torch.device("cuda:0")


def segment(pool, total, allocated, device=0):
    return {
        "device": device,
        "segment_pool_id": pool,
        "total_size": total,
        "allocated_size": allocated,
    }


class Cuda:
    """A device whose allocator says what a test tells it to."""

    def __init__(self):
        self.allocated = 1000
        self.segments = [segment((0, 0), 4000, 1000)]

    def memory_allocated(self, device):
        return self.allocated

    def reset_peak_memory_stats(self, device):
        self.peak = 0

    def max_memory_allocated(self, device):
        return 7000

    def max_memory_reserved(self, device):
        return 9000

    def memory_snapshot(self):
        return self.segments


def on(module):
    """As much of torch as the probe asks for, and the device whose module this is."""
    stub = SimpleNamespace(cuda=module, Tensor=torch.Tensor)
    return stub, Accelerator(stub, DEVICE)


def test_on_a_device_activations_are_what_the_forward_pass_left_allocated():
    cuda = Cuda()
    probe = MemoryProbe(*on(cuda), [], [])
    for left in (300, 500, 400):
        probe.forward_begins()
        cuda.allocated += left
        probe.forward_begins()  # a second model: still the same forward pass
        probe.backward_begins()
        probe.backward_begins()  # a second backward: nothing was kept for it
        cuda.allocated -= left
    found = probe.finish()
    assert found["kind"] == "device"
    assert found["activations_bytes"] == 500
    assert (found["peak_bytes"], found["reserved_bytes"]) == (7000, 9000)


@pytest.mark.parametrize(
    ("segments", "peak"),
    [
        ([segment((0, 0), 4000, 1000)], 7000),
        ([segment((0, 1), 1500, 500), segment((0, 0), 4000, 0)], 8000),
        ([segment((0, 1), 1500, 500), segment((0, 1), 1500, 500, device=1)], 8000),
        ([segment((1, 0), 9000, 0)], 9000),  # never more than there was
        ([{"device": 0, "total_size": 4000, "allocated_size": 0}], 7000),  # no word on pools
    ],
)
def test_memory_that_cuda_graphs_keep_to_themselves_counts(segments, peak):
    cuda = Cuda()
    cuda.segments = segments
    probe = MemoryProbe(*on(cuda), [], [])
    assert probe.finish()["peak_bytes"] == peak


@pytest.mark.parametrize(("kept", "activations"), [(0, 500), (400, 500), (5000, None)])
def test_activations_that_cuda_graphs_keep_to_themselves_are_not_told_as_few(kept, activations):
    """Of a forward pass that is replayed only what it hands out is to be seen."""
    cuda = Cuda()
    cuda.segments = [segment((0, 1), kept, 0)]
    probe = MemoryProbe(*on(cuda), [], [])
    probe.forward_begins()
    cuda.allocated += 500
    probe.backward_begins()
    assert probe.finish()["activations_bytes"] == activations


def test_an_allocator_that_tells_of_no_segments_still_tells_its_peak():
    class MallocAsync(Cuda):
        def memory_snapshot(self):
            raise RuntimeError("Calling snapshot with backend:cudaMallocAsync is not meaningful.")

    probe = MemoryProbe(*on(MallocAsync()), [], [])
    assert probe.finish()["peak_bytes"] == 7000


def test_of_another_kind_no_segments_are_asked_for():
    class Xpu(Cuda):
        def memory_snapshot(self):
            raise AttributeError("module 'torch._C' has no attribute '_xpu_memorySnapshot'")

    stub = SimpleNamespace(xpu=Xpu(), Tensor=torch.Tensor)
    probe = MemoryProbe(stub, Accelerator(stub, torch.device("xpu:0")), [], [])
    assert probe.finish()["peak_bytes"] == 7000


def test_state_is_found_however_it_is_nested(model):
    state = {
        "a": {"list": [torch.zeros(3), {"deep": torch.zeros(2)}], "step": 5},
        "b": (torch.zeros(4, dtype=torch.float64),),
    }
    assert state_bytes(torch, [SimpleNamespace(state=state)]) == 3 * 4 + 2 * 4 + 4 * 8


def test_parameters_are_those_of_optimizers_and_modules_once_each(model):
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    found = parameters_of([optimizer], [model])
    assert {id(p) for p in found} == {id(p) for p in model.parameters()}
    assert len(found) == 4


HOLD = """
import sys
kept = bytearray(b"x") * (int(sys.argv[1]) << 20)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holding():
    """Starts a process that holds so many MiB."""
    started = []

    def start(mebibytes):
        words = [sys.executable, "-S", "-c", HOLD, str(mebibytes)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline()
        return process

    yield start
    for process in started:
        process.communicate()


def test_what_loader_workers_hold_is_part_of_the_peak_on_a_cpu(model, holding):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alone = measured(model, optimizer)["peak_bytes"]
    pids = [holding(200).pid, holding(300).pid]
    probe = MemoryProbe(torch, None, [optimizer], [], lambda: pids)
    train(model, optimizer, probe)
    pids.clear()  # at the end of an epoch they go; they were there all the same
    more = probe.finish()["peak_bytes"] - alone
    assert 450 << 20 < more < 650 << 20


def test_pages_a_worker_shares_with_the_process_count_once():
    """A forked one shares all it does not write to."""
    kept = bytearray(b"x") * (200 << 20)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        assert unshared([child]) < len(kept) // 2
    finally:
        os.close(write)
        os.waitpid(child, 0)


def test_a_worker_that_has_ended_holds_nothing(holding):
    process = holding(10)
    process.communicate()
    assert unshared([process.pid]) == 0
