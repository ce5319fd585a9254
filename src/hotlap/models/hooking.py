"""What backward hooks write on a module: they run in the walk back alone, so it has to stay."""

from __future__ import annotations

from typing import Any

from torch import nn

from hotlap.models.sources import is_torchs

Changes = list[tuple[dict[str, Any], str, Any]]


class Written:
    """Attributes that were set, and lists that grew, since this was made.

    The modules are as in the forward pass meanwhile, and put back afterwards: what hooks have
    written is written once more by then.
    """

    def __init__(self, module: nn.Module) -> None:
        self._places = [place for one in module.modules() if _may_write(one) for place in _of(one)]
        self._before = [dict(place) for place in self._places]
        self._lengths = [
            {name: len(value) for name, value in before.items() if type(value) is list}
            for before in self._before
        ]
        self._set: Changes = []
        self._appended: Changes = []

    def look(self) -> None:
        for place, before, lengths in zip(self._places, self._before, self._lengths, strict=True):
            for name, value in place.items():
                if name not in before or value is not before[name]:
                    self._set.append((place, name, value))
                elif name in lengths and len(value) > lengths[name]:
                    self._appended.append((place, name, value[lengths[name] :]))

    def keep(self) -> None:
        for place, name, value in self._set:
            place[name] = value
        for place, name, more in self._appended:
            place[name].extend(more)


def _may_write(module: nn.Module) -> bool:
    """Through hooks of its own, or through those its forward pass puts on tensors."""
    hooked = module._backward_hooks or module._backward_pre_hooks
    return bool(hooked) or not is_torchs(type(module))


def _of(module: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    return vars(module), module._buffers
