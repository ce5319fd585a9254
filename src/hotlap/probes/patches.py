"""Doors that are open only while a phases window is running: copies, host waits, gradient care."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hotlap.probes import places
from hotlap.probes.ledger import Ledger
from hotlap.probes.timeline import OPTIMIZER, TRANSFER

if TYPE_CHECKING:
    from hotlap.probes.accelerators import Accelerator
    from hotlap.probes.recorder import Recorder

_READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__")
_NAMES = {
    "__bool__": "if tensor",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "int()",
}


def outside_compiled(torch: Any, plain: Any, watched: Any) -> Any:
    """`watched` in ordinary code; in code being compiled just `plain`, so that nothing breaks."""
    is_compiling = torch.compiler.is_compiling

    @functools.wraps(plain)
    def either(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return plain(*args, **kwargs)
        return watched(*args, **kwargs)

    return either


class Doors:
    """Opens all of them, and puts everything back exactly as it was."""

    def __init__(self, torch: Any, recorder: Recorder) -> None:
        self._torch = torch
        self._recorder = recorder
        self._ledger = Ledger()
        self._undo: list[Callable[[], None]] = []
        self._holds: Callable[[Any], bool] = lambda tensor: False
        self._copied_ahead = False  # on a stream beside the one that trains

    def open(self, ledger: Ledger) -> None:
        torch, recorder = self._torch, self._recorder
        self._ledger = ledger
        # In code being compiled all of them are just what was there, so that nothing breaks.
        self._is_compiling: Callable[[], bool] = torch.compiler.is_compiling
        if recorder.accelerator is not None:
            self._open_to(recorder.accelerator)
        self._replace(torch.optim.Optimizer, "zero_grad", self._caring)
        for name in ("step", "unscale_", "update"):
            self._replace(torch.amp.GradScaler, name, self._caring)

    def _open_to(self, accelerator: Accelerator) -> None:
        """What moves tensors between the CPU and the device, and what waits for it."""
        torch, module = self._torch, accelerator.module
        self._holds = accelerator.holds()
        for name in ("to", accelerator.kind):
            if hasattr(torch.Tensor, name):
                self._replace(torch.Tensor, name, self._copying)
        for name in _READS:
            self._replace(torch.Tensor, name, self._reading)
        if hasattr(module, "synchronize"):
            wait = functools.partial(self._waiting, f"torch.{accelerator.kind}.synchronize()")
            self._replace(module, "synchronize", wait)
        if hasattr(torch, "accelerator"):
            wait = functools.partial(self._waiting, "torch.accelerator.synchronize()")
            self._replace(torch.accelerator, "synchronize", wait)
        if self._recorder.passes.events is not None:
            # That of torch.mtia is torch.Event, which cannot be changed; others may not wait.
            with contextlib.suppress(TypeError, AttributeError):
                self._replace(module.Event, "wait", self._joining)

    def close(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _replace(self, owner: Any, name: str, make: Callable[[Any, str], Any]) -> None:
        plain = getattr(owner, name)
        own = name in vars(owner)
        ours = functools.wraps(plain)(make(plain, name))
        setattr(owner, name, ours)

        def undo() -> None:
            if vars(owner).get(name) is not ours:
                return  # the script has put something of its own there since
            if own:
                setattr(owner, name, plain)
            else:
                delattr(owner, name)

        self._undo.append(undo)

    def _copying(self, plain: Any, name: str) -> Any:
        recorder, is_compiling, holds = self._recorder, self._is_compiling, self._holds

        def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not recorder.passes.timeline.watching:
                return plain(tensor, *args, **kwargs)
            if not recorder.mine():
                return plain(tensor, *args, **kwargs)
            if holds(tensor):
                if name == "to" and (args or kwargs):
                    started = time.perf_counter()
                    result = plain(tensor, *args, **kwargs)
                    if not holds(result):
                        self._ledger.waited(".to()", time.perf_counter() - started, places.here(2))
                    return result
                return plain(tensor, *args, **kwargs)
            if name == "to" and not _names_device(args, kwargs):
                return plain(tensor, *args, **kwargs)
            events = recorder.passes.events
            self._copied_ahead |= events is not None and events.is_elsewhere()
            recorder.enter(TRANSFER)
            try:
                result = plain(tensor, *args, **kwargs)
            finally:
                recorder.leave(TRANSFER)
            if holds(result):
                self._ledger.copied(result.nbytes, places.here(2), pinned=tensor.is_pinned)
            return result

        return copy

    def _joining(self, plain: Any, name: str) -> Any:
        """The stream that trains waits, on the device, for what was copied on another one."""
        recorder, is_compiling = self._recorder, self._is_compiling

        def wait(event: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not recorder.passes.timeline.watching:
                return plain(event, *args, **kwargs)
            if not self._copied_ahead or not recorder.mine():
                return plain(event, *args, **kwargs)
            events, stream = recorder.passes.events, args[0] if args else kwargs.get("stream")
            if events is None or not events.trains_on(stream):
                return plain(event, *args, **kwargs)
            recorder.enter(TRANSFER)
            try:
                return plain(event, *args, **kwargs)
            finally:
                recorder.leave(TRANSFER)

        return wait

    def _reading(self, plain: Any, name: str) -> Any:
        recorder, is_compiling, holds = self._recorder, self._is_compiling, self._holds
        shown = _NAMES.get(name, f".{name}()")

        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not recorder.passes.timeline.watching:
                return plain(tensor, *args, **kwargs)
            if not holds(tensor) or not recorder.mine():
                return plain(tensor, *args, **kwargs)
            started = time.perf_counter()
            result = plain(tensor, *args, **kwargs)
            self._ledger.waited(shown, time.perf_counter() - started, places.here(2))
            return result

        return read

    def _waiting(self, shown: str, plain: Any, name: str) -> Any:
        recorder, is_compiling = self._recorder, self._is_compiling

        def wait(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not recorder.passes.timeline.watching:
                return plain(*args, **kwargs)
            started = time.perf_counter()
            result = plain(*args, **kwargs)
            self._ledger.waited(shown, time.perf_counter() - started, places.here(2))
            return result

        return wait

    def _caring(self, plain: Any, name: str) -> Any:
        recorder, is_compiling = self._recorder, self._is_compiling

        def care(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not recorder.passes.timeline.watching:
                return plain(*args, **kwargs)
            if name == "zero_grad" and False in (*args[1:2], kwargs.get("set_to_none")):
                recorder.uses.keeps_gradients = True
            recorder.enter(OPTIMIZER)
            try:
                return plain(*args, **kwargs)
            finally:
                recorder.leave(OPTIMIZER)

        return care


def _names_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a `.to()` may leave the CPU: it names a device or a tensor, not only a dtype."""
    first = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    if isinstance(first, str):
        return not first.startswith("cpu")
    return first is not None and type(first).__name__ != "dtype"
