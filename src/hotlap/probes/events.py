"""Events on the stream that trains, used again window after window: making one is felt.

For CUDA torch's C functions are called as they are: each Python function around them is felt, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Events:
    """Called, it hands out an event that has just been recorded."""

    def __init__(self, torch: Any, device: Any) -> None:
        module = getattr(torch, device.type)
        self._make = module.Event
        self._device = device
        self._stream_of: Callable[[Any], Any] = module.current_stream
        self._current: Callable[[Any], Any] = module.current_stream
        self._record: Callable[[Any, Any], Any] = module.Event.record
        self._index = device
        if device.type == "cuda":
            self._current, self._index = torch._C._cuda_getCurrentStream, device.index or 0
            self._record = torch._C._CudaEventBase.record
        self._key: Any = None
        self._stream: Any = None
        self._free: list[Any] = []
        self._used: list[Any] = []

    def __call__(self) -> Any:
        key = self._current(self._index)
        # A torch.Stream answers False to `!= None` as well. Its object is kept: making one is felt.
        if self._stream is None or key != self._key:
            self._key, self._stream = key, self._stream_of(self._device)
        return self.beside()

    def beside(self) -> Any:
        """Where training was last, also if another stream is current: batches are copied ahead
        there, beside the training, and what is recorded there does not tell when it goes on."""
        if self._stream is None:
            return self()
        event = self._free.pop() if self._free else self._make(enable_timing=True)
        self._used.append(event)
        self._record(event, self._stream)
        return event

    def is_elsewhere(self) -> bool:
        """Whether another stream is current than the one that trained last."""
        return bool(self._current(self._index) != self._key)

    def trains_on(self, stream: Any) -> bool:
        """None is the current one."""
        return not self.is_elsewhere() if stream is None else bool(stream == self._stream)

    def release(self) -> None:
        """The window has been read: its events may be recorded again."""
        self._free += self._used
        self._used = []
