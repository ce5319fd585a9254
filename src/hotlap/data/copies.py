"""Batches on their way to a device, on a stream of its own: what may be touched, and when.

Two things can go wrong with a side stream, and both give wrong numbers without an error. The
training may read a batch whose copy is not done: so its stream waits for the copy's event. And the
memory of a batch may be given to the next one while the training still reads it: so each tensor is
recorded on the training's stream, and the allocator waits for that stream before it uses the
memory again.

torch comes as an argument: this module is also loaded where there is none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hotlap.data import nests


class Copy(NamedTuple):
    """A batch under way. What it is copied from is held until it is handed over."""

    batch: Any
    source: Any
    event: Any


class Copies:
    """One side stream to one CUDA device."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._side = torch.cuda.Stream(device)
        self.device = device
        self.unpinned = 0  # tensors that made the host wait

    def start(self, batch: Any) -> Copy:
        torch = self._torch
        with torch.cuda.stream(self._side):
            copied = nests.replaced(torch, batch, self._copied)
            event = torch.cuda.Event()
            event.record(self._side)
        return Copy(copied, batch, event)

    def hand_over(self, copy: Copy) -> Any:
        """The batch, for the stream that is current now. The host waits for nothing."""
        torch = self._torch
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(copy.event)
        for tensor in nests.tensors(torch, copy.batch):
            if tensor.device == self.device and _plain(torch, tensor):
                tensor.record_stream(stream)
        return copy.batch

    def _copied(self, tensor: Any) -> Any:
        if tensor.is_cuda or not _plain(self._torch, tensor):
            return tensor
        pinned = tensor.is_pinned()
        if not pinned and tensor.numel():
            self.unpinned += 1
        return tensor.to(self.device, non_blocking=pinned)


def is_ready(iterator: Any) -> bool | None:
    """Whether the next batch of torch's own workers is there; None where it cannot be asked."""
    try:
        if len(iterator._task_info.get(iterator._rcvd_idx, ())) == 2:
            return True
        return not iterator._data_queue.empty()
    except AttributeError:
        return None


def _plain(torch: Any, tensor: Any) -> bool:
    """Whether its memory can be recorded on a stream: sparse and nested tensors refuse."""
    return tensor.layout is torch.strided and not tensor.is_nested
