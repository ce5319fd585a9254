"""What a command is besides its words, so that runs of something else are not taken for its own.

A digest of the files it names and of the Python files around its script, where it runs, and with
which interpreter. Cheap, so within bounds: what lies beyond them is not seen.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from hotlap.optimizations import FILES_VARIABLE

MOST_FILES = 500
MOST_FOLDERS = 200
MOST_BYTES = 1 << 20  # of each
_READ = {"", ".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg"}  # not what it writes
_NOT_OURS = {"__pycache__", "site-packages", "node_modules"}


def of(words: Sequence[str], working: Path) -> dict[str, str]:
    """By what it is called in a sentence."""
    named = _named(words, working)
    scripts = [path.parent for path in named if path.suffix == ".py"]
    return {
        "the working directory": str(working),
        "the interpreter": _interpreter(words),
        "a file that the command names": _digest(named),
        "an optimization of your own": _digest(_own()),
        "a Python file of the project": _digest(_python([*scripts[:1], working])),
    }


def first_change(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    changed = [what for what in now if before.get(what) != now[what]]
    return changed[0] if changed else "what is noted about it"


def _interpreter(words: Sequence[str]) -> str:
    """The path as it is: those of two environments are links to the same file."""
    if not words or words[0].endswith(".py"):
        return sys.executable
    return shutil.which(words[0]) or words[0]


def _named(words: Sequence[str], working: Path) -> list[Path]:
    """The script, a configuration: words that are files, and what stands behind `--option=`."""
    parts = [part for word in words for part in (word, word.partition("=")[2]) if part]
    paths = [working / os.path.expanduser(part) for part in parts if len(part) < 4096]
    return [path for path in paths if path.suffix in _READ and _is_file(path)]


def _own() -> list[Path]:
    return [Path(name) for name in os.environ.get(FILES_VARIABLE, "").split(os.pathsep) if name]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _python(folders: Sequence[Path]) -> list[Path]:
    return [path for folder in folders for path in islice(_walk(folder), MOST_FILES)]


def _walk(folder: Path) -> Iterator[Path]:
    for here, folders, files in islice(os.walk(folder), MOST_FOLDERS):
        folders[:] = sorted(one for one in folders if one[0] != "." and one not in _NOT_OURS)
        yield from (Path(here) / name for name in sorted(files) if name.endswith(".py"))


def _digest(paths: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(f"{path}\0".encode(errors="surrogateescape"))
        try:
            with path.open("rb") as file:
                found.update(file.read(MOST_BYTES))
                found.update(str(os.fstat(file.fileno()).st_size).encode())
        except OSError:
            continue
    return found.hexdigest()
