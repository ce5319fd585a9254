"""The script's own source, looked through for what can only be known when it is too late."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from pathlib import Path


def first(line: Callable[[str], int | None]) -> str | None:
    """Where `line` finds something in the script or a loaded module of its own: file and line."""
    from hotlap.probes import places  # asks where libraries lie when it is imported

    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and places.is_users(path):
            found = line(path)
            if found is not None:
                return f"{os.path.basename(path)}:{found}"
    return None


def parsed(path: str, *, holding: str) -> ast.AST | None:
    """The source there; None where it does not hold these words, or cannot be read."""
    try:
        text = Path(path).read_text("utf-8")
        return ast.parse(text) if holding in text else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
