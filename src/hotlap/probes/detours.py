"""Where a save was led away, the script's other dealings with that path go there too.

Scripts save and then copy, rename or look. The functions they do it with are replaced at the first
save that is led away; until then, and in runs without one, nothing is touched. Paths of other names
cost a look into a set.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import pathlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SETS = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)
_move = os.replace
_copy = shutil.copyfile
_remove = os.unlink


class Detours:
    """`divert` says where a path goes that is written from a file that was led away itself."""

    def __init__(self, divert: Callable[[Any], Path | None]) -> None:
        self._divert = divert
        self._led: dict[str, Path] = {}
        self._names: set[str] = set()

    def add(self, path: Any, elsewhere: Path) -> None:
        if not self._led:
            _replace_functions(self)
        real = os.path.realpath(os.fsdecode(path))
        self._led[real] = elsewhere
        self._names |= {os.path.basename(real), os.path.basename(os.fsdecode(path))}

    def of(self, path: Any) -> Any:
        """Where the path was led to; the path itself where it was not."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return path
        try:
            plain = os.fsdecode(path)
            if os.path.basename(plain) not in self._names:
                return path
            return self._led.get(os.path.realpath(plain), path)
        except (OSError, ValueError, TypeError):
            return path

    def of_target(self, source: Any, target: Any) -> Any:
        """Where a copy goes: what was led away must not come back over the user's files."""
        found = self.of(target)
        if found is not target or self.of(source) is source:
            return found
        try:
            elsewhere = self._divert(target)
        except (OSError, ValueError, TypeError):
            return target
        if elsewhere is None:
            return target
        self.add(target, elsewhere)
        return elsewhere


def _replace_functions(detours: Detours) -> None:
    _put(_one(detours, builtins.open), (builtins, "open"), (io, "open"))
    _put(_one(detours, os.stat), (os, "stat"))
    remove = _one(detours, os.unlink)
    _put(remove, (os, "unlink"))
    _put(remove, (os, "remove"))
    _put(_moving(detours, os.rename), (os, "rename"))
    _put(_moving(detours, os.replace), (os, "replace"))
    for name in ("copyfile", "copymode", "copystat"):
        _put(_two(detours, getattr(shutil, name)), (shutil, name))
    accessor = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10 has its own copies there
    for name in ("stat", "unlink", "rename", "replace") if accessor else ():
        setattr(accessor, name, staticmethod(getattr(os, name)))
    if accessor:
        accessor.open = staticmethod(io.open)


def _put(function: Any, *places: tuple[Any, str]) -> None:
    for owner, name in places:
        for known in _SETS:
            if getattr(owner, name) in known:
                known.add(function)
        setattr(owner, name, function)


def _one(detours: Detours, plain: Any) -> Any:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and kwargs.get("dir_fd") is None:
            args = (detours.of(args[0]), *args[1:])
        for name in ("path", "file"):
            if name in kwargs and kwargs.get("dir_fd") is None:
                kwargs[name] = detours.of(kwargs[name])
        return plain(*args, **kwargs)

    return call


def _two(detours: Detours, plain: Any) -> Any:
    @functools.wraps(plain)
    def call(src: Any, dst: Any, **kwargs: Any) -> Any:
        target = detours.of_target(src, dst)
        answer = plain(detours.of(src), target, **kwargs)
        return dst if answer is target else answer

    return call


def _moving(detours: Detours, plain: Any) -> Any:
    @functools.wraps(plain)
    def call(src: Any, dst: Any, **kwargs: Any) -> None:
        source, target = detours.of(src), detours.of_target(src, dst)
        if (source is src and target is dst) or kwargs:
            plain(src, dst, **kwargs)
            return
        try:
            _move(source, target)
        except OSError as problem:
            if problem.errno != errno.EXDEV:
                raise
            _copy(source, target)
            _remove(source)

    return call
