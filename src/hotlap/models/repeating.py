"""Running a module a second time as it ran the first time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


class Conditions:
    """Random numbers and autocast at one place of a forward pass."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in sorted({"cpu", device.type} & {"cpu", "cuda"})
        ]
        self._cached = torch.is_autocast_cache_enabled()
        self._random: list[torch.Tensor] | None = self._states()

    def _states(self) -> list[torch.Tensor]:
        states = [torch.get_rng_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        return states

    def close(self) -> None:
        """Where nothing was drawn, there is nothing to draw again, and nothing is kept."""
        if self._random is not None and all(map(torch.equal, self._random, self._states())):
            self._random = None

    @contextmanager
    def again(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self._random is not None:
                devices = [self._device] if self._device.type == "cuda" else []
                stack.enter_context(torch.random.fork_rng(devices=devices))
                torch.set_rng_state(self._random[0])
                if devices:
                    torch.cuda.set_rng_state(self._random[1], self._device)
            for kind, enabled, dtype in self._autocast:
                stack.enter_context(
                    torch.autocast(kind, dtype, enabled=enabled, cache_enabled=self._cached)
                )
            yield


@contextmanager
def unchanged(module: nn.Module, name: str) -> Iterator[None]:
    """Refuses buffers that a forward pass changes: a second pass would start from others."""
    counted = {
        id(buffer)
        for one in module.modules()
        if isinstance(one, _BatchNorm)
        for buffer in one.buffers(recurse=False)
    }
    buffers: dict[str, Any] = dict(module.named_buffers())
    before = [(key, one, one._version) for key, one in buffers.items() if id(one) not in counted]
    yield
    after = dict(module.named_buffers())
    for key, one, version in before:
        replaced = after.get(key) is not one
        if replaced or version != one._version:
            raise RuntimeError(
                f"{name} ({type(module).__name__}) changes its buffer {key} in the forward pass, "
                "which runs a second time; keep such modules outside reversible blocks"
            )
