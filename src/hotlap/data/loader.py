"""The next batches are copied to the device while this one is trained on."""

from __future__ import annotations

import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from hotlap.data import nests
from hotlap.data.copies import Copies, Copy, is_ready
from hotlap.data.delegation import Around
from hotlap.data.resumable import Resumable

STATES = ("state_dict", "load_state_dict")


class DeviceLoader(Around):
    """A loader whose batches are on the device already.

    Goes around any iterable of batches and can be iterated again if that can. Tensors in pinned
    memory are copied on one side stream; the stream that is current when a batch is asked for waits
    for its copy, the host does not. At most `ahead` batches are on their way. Batches that are not
    there yet are never waited for, but one: of a source that cannot be asked whether it has one.

    On the CPU there is nothing to do, and the batches are those of the loader.
    """

    OWN = ("loader", "device", "ahead", "_copies", "_told")

    def __init__(
        self, loader: Iterable[Any], device: torch.device | str | int, *, ahead: int = 2
    ) -> None:
        if ahead < 1:
            raise ValueError(f"ahead is {ahead}; at least one batch must be on its way")
        if isinstance(loader, Resumable):
            raise TypeError(
                "Resumable counts the batches it hands out, and DeviceLoader asks for them early. "
                "Put them the other way round: Resumable(DeviceLoader(loader, device))"
            )
        self.loader = loader
        self.device = torch.device(device)
        self.ahead = ahead
        self._copies: Copies | None = None
        self._told = False

    def __iter__(self) -> Iterator[Any]:
        source: Iterator[Any] = iter(
            self.loader
        )  # before CUDA is touched: workers may be forked here
        if self.device.type == "cpu":
            return source
        if self.device.type != "cuda":
            return map(self._settled, source)
        return _Batches(self, source, self._side())

    def __getattr__(self, name: str) -> Any:
        if name in STATES:
            raise AttributeError(
                f"{name} of the loader inside is up to {self.ahead} batches ahead of the training; "
                "Resumable(DeviceLoader(loader, device)) knows where the training is"
            )
        return super().__getattr__(name)

    def _side(self) -> Copies:
        """One for all iterators: their copies share a wire anyway."""
        if self._copies is None:
            device = self.device
            if device.index is None:
                device = torch.device("cuda", torch.cuda.current_device())
            self._copies = Copies(torch, device)
        return self._copies

    def _settled(self, batch: Any) -> Any:
        """What could not be copied ahead is moved now: objects with a `.to()` of their own."""
        device = self.device if self._copies is None else self._copies.device

        def there(tensor: Any) -> Any:
            return tensor if tensor.device == device else tensor.to(device)

        def moved(value: Any) -> Any:
            move = None if isinstance(value, type) else getattr(value, "to", None)
            return move(device) if callable(move) else value

        return nests.replaced(torch, batch, there, unknown=moved)

    def _tell(self) -> None:
        """Once, and only where pinning is a thread's work: by hand it costs what it saves."""
        if self._told or not getattr(self.loader, "num_workers", 0):
            return
        self._told = True
        if getattr(self.loader, "pin_memory", False):
            advice = "some of their tensors are of a type that has no pin_memory() method"
        else:
            advice = "make the loader with pin_memory=True"
        warnings.warn(
            "batches are not in pinned memory, and the training waits while they are copied: "
            + advice,
            stacklevel=3,
        )


class Earlier(Exception):
    """Where a problem came up, as text: it was met while an earlier batch was handed out."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _kept(problem: Exception) -> Exception:
    """Without its frames: they hold the iterator, and it could not be let go of in time."""
    told = "".join(traceback.format_exception(problem)).rstrip()
    problem.__cause__, problem.__context__ = Earlier(told), None
    return problem.with_traceback(None)


class _Batches:
    """One iteration, and the batches that are on their way in it."""

    def __init__(self, loader: DeviceLoader, source: Iterator[Any], copies: Copies) -> None:
        self._loader = loader
        self._source: Iterator[Any] | None = source
        self._copies = copies
        self._held: deque[Copy | Exception] = deque()
        # torch pins each batch in memory of its own; others may write into theirs again.
        self._own_memory = isinstance(loader.loader, DataLoader)
        self._newest: Copy | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        first = self._held.popleft() if self._held else self._started()
        if isinstance(first, Exception):
            try:
                raise first
            finally:
                del first
        if self._copies.unpinned:
            self._loader._tell()
        batch = self._loader._settled(self._copies.hand_over(first))
        self._look_ahead()
        return batch

    def _started(self) -> Copy:
        """The next batch of the source, under way."""
        if self._source is None:
            raise StopIteration
        if self._newest is not None:
            self._newest.event.synchronize()
        try:
            batch = next(self._source)
        except StopIteration:
            self._source = self._newest = None
            raise
        copy = self._copies.start(batch)
        self._newest = None if self._own_memory else copy
        return copy

    def _look_ahead(self) -> None:
        while len(self._held) < self._loader.ahead and self._is_worth_asking():
            try:
                self._held.append(self._started())
            except StopIteration:
                return
            except Exception as problem:  # told in its turn
                self._held.append(_kept(problem))

    def _is_worth_asking(self) -> bool:
        if self._source is None or (self._held and isinstance(self._held[-1], Exception)):
            return False
        ready = is_ready(self._source)
        return not self._held if ready is None else ready
