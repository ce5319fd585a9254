"""`python -m hotlap.studies.cells FUNCTION ARGUMENTS FILE`: one function of a study, by itself.

FUNCTION is `module:name` below hotlap.studies, ARGUMENTS a JSON object of its keyword arguments.
What it answers, a JSON object, goes into FILE.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def echo(**arguments: Any) -> dict[str, Any]:
    """What is answered for nothing: to see that cells are run at all."""
    return arguments


def main(function: str, arguments: str, file: str) -> None:
    module, _, name = function.partition(":")
    called = getattr(importlib.import_module(f"hotlap.studies.{module}"), name)
    answer = called(**json.loads(arguments))
    target = Path(file)
    temporary = target.with_suffix(".part")  # never half a file
    temporary.write_text(json.dumps(answer, allow_nan=False))
    temporary.replace(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
