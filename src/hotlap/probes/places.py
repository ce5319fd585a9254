"""Which line of the user's own code is running: the innermost frame that is not a library's."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Sequence
from types import CodeType, FrameType

_HOTLAP = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARIES = (
    _HOTLAP,
    *(
        os.path.realpath(path) + os.sep
        for path in map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
        if path
    ),
)
_cache: dict[str, bool] = {}


def is_users(filename: str) -> bool:
    known = _cache.get(filename)
    if known is None:
        known = _cache[filename] = _decide(filename)
    return known


def _decide(filename: str) -> bool:
    if filename.startswith("<"):
        return False
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main and os.path.abspath(main) == os.path.abspath(filename):
        return "torch/distributed" not in filename
    path = os.path.realpath(filename)
    if any(part in path for part in ("site-packages", "dist-packages", "torchinductor")):
        return False
    return not path.startswith(_LIBRARIES)


@functools.lru_cache(maxsize=1024)
def is_torchs(filename: str) -> bool:
    """Whether it is torch's own Python, or what its compiler wrote."""
    path = os.path.realpath(filename)
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    own = torch is not None and path.startswith(os.path.dirname(os.path.realpath(torch)) + os.sep)
    return own or "torchinductor" in path


def package(filename: str) -> str | None:
    """The installed library a file is of; None for Python's own files, torch's and hotlap's."""
    path = os.path.realpath(filename)
    for folder in ("site-packages", "dist-packages"):
        _, found, inside = path.rpartition(f"{os.sep}{folder}{os.sep}")
        if found and not is_torchs(filename) and not path.startswith(_HOTLAP):
            return inside.split(os.sep)[0].removesuffix(".py")
    return None


def users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def of(frame: FrameType | None) -> tuple[str, int, str] | None:
    """(file, line, function) of the user's innermost line at or above `frame`."""
    found = users_frame(frame)
    return None if found is None else _place(found.f_code, found.f_lineno)


def among(
    stack: Sequence[tuple[CodeType, int | None]],
) -> tuple[tuple[str, int, str] | None, int]:
    """As `of`, for a stack whose frames were let go: its code and lines, the innermost first.

    With it, how many frames are below the line's own.
    """
    for index, (code, line) in enumerate(stack):
        if is_users(code.co_filename):
            return _place(code, line), len(stack) - 1 - index
    return None, 0


def _place(code: CodeType, line: int | None) -> tuple[str, int, str]:
    # Between two lines, as at the head of a loop, a frame may be on none.
    return _absolute(code.co_filename), line or code.co_firstlineno, code.co_name


@functools.lru_cache(maxsize=1024)
def _absolute(filename: str) -> str:
    return os.path.abspath(filename)


def here(depth: int = 1) -> tuple[str, int, str] | None:
    """As `of`; the frame asked for is mostly the user's own, and then it costs little."""
    frame = sys._getframe(depth)
    code = frame.f_code
    if _cache.get(code.co_filename):
        return _place(code, frame.f_lineno)
    return of(frame)
