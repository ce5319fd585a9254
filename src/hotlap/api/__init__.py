"""The verbs as Python functions: what the command line calls, and what scripts may.

Each loads on first use: who asks for help waits for none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.api.comparing import compare
    from hotlap.api.profiling import profile
    from hotlap.api.running import run
    from hotlap.api.studying import study
    from hotlap.api.tuning import tune

__all__ = ["compare", "profile", "run", "study", "tune"]

_HOMES = {
    "compare": "comparing",
    "profile": "profiling",
    "run": "running",
    "study": "studying",
    "tune": "tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hotlap.api' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hotlap.api.{_HOMES[name]}"), name)
