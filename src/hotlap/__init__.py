"""hotlap: make PyTorch training faster from outside, with proof, and see where a step goes.

    import hotlap
    tuning = hotlap.tune(["train.py", "--epochs", "90"])
    print(tuning.summary)
    profile = hotlap.profile(["train.py", "--epochs", "90"])
    print(profile.verdict.sentence)
    print(hotlap.study("workers", quick=True).reading)

Importing hotlap imports neither torch nor any of hotlap's own parts: names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.answers import Answer
    from hotlap.api import compare, profile, run, study, tune
    from hotlap.comparisons import Comparison
    from hotlap.errors import (
        CommandFailed,
        HotlapError,
        Interrupted,
        NothingMeasured,
        RecordError,
        UsageError,
    )
    from hotlap.recipes import Recipe
    from hotlap.records import Finding, Profile, Verdict, load
    from hotlap.tunings import Tuning

__version__ = "0.1.0"

_HOMES = {
    "compare": "hotlap.api",
    "profile": "hotlap.api",
    "tune": "hotlap.api",
    "run": "hotlap.api",
    "study": "hotlap.api",
    "Answer": "hotlap.answers",
    "Comparison": "hotlap.comparisons",
    "Recipe": "hotlap.recipes",
    "Tuning": "hotlap.tunings",
    "Profile": "hotlap.records",
    "Verdict": "hotlap.records",
    "Finding": "hotlap.records",
    "load": "hotlap.records",
    "HotlapError": "hotlap.errors",
    "UsageError": "hotlap.errors",
    "RecordError": "hotlap.errors",
    "CommandFailed": "hotlap.errors",
    "NothingMeasured": "hotlap.errors",
    "Interrupted": "hotlap.errors",
}

__all__ = [
    "Answer",
    "CommandFailed",
    "Comparison",
    "Finding",
    "HotlapError",
    "Interrupted",
    "NothingMeasured",
    "Profile",
    "Recipe",
    "RecordError",
    "Tuning",
    "UsageError",
    "Verdict",
    "__version__",
    "compare",
    "load",
    "profile",
    "run",
    "study",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hotlap' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
