"""The fixtures the tests of the command line and of the optimizations use."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asking by CUDA itself bars forks
TESTS = Path(__file__).parents[1]


def _module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hotlap = _module("hotlap_cli_conftest", TESTS / "cli" / "conftest.py").hotlap
_unit = _module("hotlap_unit_conftest", TESTS / "unit" / "conftest.py")
torch_imported, forked = _unit.torch_imported, _unit.forked
train = _module("hotlap_scripts_conftest", TESTS / "unit" / "optimizations" / "conftest.py").train
