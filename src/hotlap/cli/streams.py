"""Standard output and errors as hotlap needs them: there, and able to carry every character."""

from __future__ import annotations

import codecs
import os
import sys

STAND_INS = str.maketrans(
    {
        **{"▒": "-", "░": ":", "█": "#", "▓": "=", "▚": "%", "·": ".", "■": "#", "●": "*"},
        **{"–": "-", "−": "-", "…": "...", "→": "->", "µ": "u", "×": "x", "✕": "x", "✓": "ok"},
        **{"±": "+-"},
        **{"≠": "!=", "▲": "^", "▼": "v", "◆": "o", "＝": "=", "＋": "+", "－": "-", "＠": "@"},
    }
)


def prepare() -> None:
    """Called once, before anything is printed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed by the caller: nobody reads, and no file may take its number
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    codecs.register_error("hotlap", _in_its_stead)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="hotlap")


def _in_its_stead(problem: UnicodeError) -> tuple[str, int]:
    """What an encoding cannot carry: a plain character that looks like it, or a question mark."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end].translate(STAND_INS)
    return text.encode("ascii", "replace").decode(), problem.end
