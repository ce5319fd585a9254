"""What is to be done with a module as soon as a script imports it, and not before.

Importing torch's compiler takes a second, and it reads variables of the environment as it does:
that is the script's to decide.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any


def after(name: str, act: Callable[[Any], object]) -> None:
    """`act` gets the module when it has been run; at once where that is so already."""
    module = sys.modules.get(name)
    if module is not None:
        act(module)
    else:
        sys.meta_path.insert(0, _Waiting(name, act))


class _Waiting:
    """A meta path finder that finds what the others find, until its module has been run."""

    def __init__(self, name: str, act: Callable[[Any], object]) -> None:
        self._name = name
        self._act = act
        self._busy = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            plain = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                plain(module)
                with contextlib.suppress(ValueError):
                    sys.meta_path.remove(self)
                self._act(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
