"""Called once per process, when torch has been imported and a trial or run carries a recipe."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from hotlap.optimizations import known, seeds
from hotlap.optimizations.training import Training


def install(torch: Any, folder: Path, settings: dict[str, Any]) -> Training:
    """Applies the recipe in the settings; an optimization that fails to is noted, not fatal."""
    seed = settings.get("seed")
    if seed is not None:  # a script that seeds itself does so after this
        torch.manual_seed(seed)
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        if seed:
            seeds.shift(torch, seed)
    changes = settings.get("recipe") or {}
    training = Training(torch, folder, forgiving=bool(settings.get("forgiving")))
    for one in known():
        if one.NAME in changes:
            try:
                one.install(training, changes[one.NAME])
            except Exception as problem:
                training.refused(one.NAME, f"{type(problem).__name__}: {problem}")
    return training
