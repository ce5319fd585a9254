"""A loader around a loader looks like the one inside: its attributes are read and set there."""

from __future__ import annotations

from typing import Any


class Around:
    """Passes on what it does not have itself. `OWN` names the attributes that are its own."""

    OWN: tuple[str, ...] = ("loader",)
    loader: Any

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.OWN:  # also while it is being copied or unpickled
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.OWN or hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            setattr(self.loader, name, value)
