"""Copies ahead on a played device that does its work as late, and in as bad an order, as it may.

Streams are queues; which of them goes on is drawn at random. Memory is given out again as torch's
allocator does it: at once to the stream it belongs to, unless another one was recorded on it.
"""

import contextlib
import random
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.data import loader as module
from hotlap.data.loader import DeviceLoader

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


class Stream:
    def __init__(self):
        self.work, self.done = [], 0

    def wait_event(self, event):
        self.work.append(lambda: event.happened)

    def go_on(self):
        if self.done < len(self.work) and self.work[self.done]() is not False:
            self.done += 1
            return True
        return False


class Memory:
    """What a tensor lies in. `taken` says when each stream that was recorded is through with it."""

    def __init__(self):
        self.value, self.users, self.taken = None, set(), []

    def is_free(self):
        return all(stream.done >= place for stream, place in self.taken)


class Device:
    def __init__(self, seed):
        self.main, self.side = Stream(), Stream()
        self.current, self.freed, self.luck = self.main, [], random.Random(seed)
        self.recording = self.waiting = self.synchronizing = True

    def torch(self):
        """As much of torch as is asked for."""
        return SimpleNamespace(
            Tensor=Tensor,
            device=torch.device,
            strided=torch.strided,
            cuda=SimpleNamespace(
                Stream=lambda device: self.side,
                Event=lambda: Event(self),
                stream=self.on,
                current_stream=lambda device: self.main if self.waiting else Stream(),
                current_device=lambda: 0,
            ),
        )

    @contextlib.contextmanager
    def on(self, stream):
        self.current = stream
        yield
        self.current = self.main

    def memory(self):
        assert self.current is self.side
        found = next((one for one in self.freed if one.is_free()), None)
        if found is None:
            return Memory()
        self.freed.remove(found)
        return found

    def work_a_while(self):
        for _ in range(self.luck.randrange(6)):
            self.luck.choice((self.main, self.side)).go_on()

    def finish(self):
        while self.main.go_on() or self.side.go_on():
            pass


class Event:
    def __init__(self, device):
        self.device, self.happened = device, False

    def record(self, stream):
        stream.work.append(lambda: setattr(self, "happened", True))

    def synchronize(self):
        while self.device.synchronizing and not self.happened:
            self.device.side.go_on()


class Tensor:
    layout, is_nested = torch.strided, False

    def __init__(self, device, memory, place):
        self.played, self.memory, self.device = device, memory, place
        self.is_cuda = place == CUDA

    def is_pinned(self):
        return True

    def to(self, device, non_blocking):
        target, source = self.played.memory(), self.memory
        self.played.current.work.append(lambda: setattr(target, "value", source.value))
        return Tensor(self.played, target, device)

    def record_stream(self, stream):
        if self.played.recording:
            self.memory.users.add(stream)

    def __del__(self):
        if self.is_cuda:
            memory = self.memory
            memory.taken = [(stream, len(stream.work)) for stream in memory.users]
            memory.users = set()
            self.played.freed.append(memory)


def pinned(device, value, memory=None):
    memory = memory or Memory()
    memory.value = value
    return Tensor(device, memory, CPU)


class NewMemory:
    """Plays torch's DataLoader."""

    def __init__(self, device, count):
        self.device, self.count = device, count

    def __iter__(self):
        return ([pinned(self.device, value)] for value in range(self.count))


def the_same_memory(device, count):
    """Plays a loader that writes each batch into one pinned buffer."""
    memory = Memory()
    for value in range(count):
        yield [pinned(device, value, memory)]


def read(device, source, *, ahead=2, keep=0, count=12):
    """What the main stream finds in each batch; some are kept a while before they are let go of."""
    found, kept = [], []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "torch", device.torch())
        patched.setattr(module, "DataLoader", NewMemory)
        for (tensor,) in DeviceLoader(source(device, count), "cuda", ahead=ahead):
            memory = tensor.memory
            device.main.work.append(lambda memory=memory: found.append(memory.value))
            kept = [*kept, tensor][-keep:] if keep else []
            del tensor
            device.work_a_while()
        device.finish()
    return found


SOURCES = st.sampled_from([NewMemory, the_same_memory])


@settings(deadline=None, max_examples=200)
@given(st.integers(), SOURCES, st.integers(1, 4), st.integers(0, 3))
def test_the_training_reads_what_was_loaded_whatever_the_device_does_first(
    seed, source, ahead, keep
):
    assert read(Device(seed), source, ahead=ahead, keep=keep) == list(range(12))


def test_memory_is_used_again_where_that_is_safe():
    device = Device(0)
    device.work_a_while = device.finish
    read(device, NewMemory)
    assert len({id(memory) for memory in device.freed}) < 6


@pytest.mark.parametrize(
    ("left_out", "source"),
    [
        ("recording", NewMemory),
        ("waiting", NewMemory),
        ("synchronizing", the_same_memory),
    ],
)
def test_each_of_the_three_cares_is_needed(left_out, source):
    def is_right(seed):
        device = Device(seed)
        setattr(device, left_out, False)
        return read(device, source) == list(range(12))

    assert not all(is_right(seed) for seed in range(20))
