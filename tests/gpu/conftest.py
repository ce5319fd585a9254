"""The same fixture the tests of the command line use."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[1] / "cli" / "conftest.py"
_spec = importlib.util.spec_from_file_location("hotlap_cli_conftest", _path)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
hotlap = _module.hotlap
