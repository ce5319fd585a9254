"""What the user typed, made into something that can be started. Never edited beyond that."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hotlap.errors import UsageError
from hotlap.settings import TRIAL_VARIABLE
from hotlap.trials import bootstrap_folder
from hotlap.trials.shared import is_shared

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_GLUED = re.compile(r"-[A-Za-z]((?:~|\.{1,2})?/.*)", re.S)  # an option of one letter and its path
_PATH = re.compile(r"(?<![\w.~-])(?:~|\.{1,2})?/[^\s,;:'\"=(){}\[\]|&<>]*")
_ADDRESS = re.compile(r"\b(?!file:)[A-Za-z][\w+.-]*://[^\s'\",;]*")

# What makes an experiment tracker write to files here, which go with the trial.
TRACKERS = {
    "WANDB_MODE": "offline",
    "COMET_START_ONLINE": "0",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",
}


def resolve(command: Sequence[str], *, folder: Path) -> list[str]:
    """A first word that ends in .py runs with this interpreter; anything else runs as typed."""
    if not command:
        raise UsageError("No command was given. Say what to train, as in train.py --epochs 90.")
    first, rest = command[0], list(command[1:])
    if not first.strip():
        raise UsageError("The first word of the command is empty. Is a variable of yours not set?")
    if _ASSIGNMENT.match(first) and not (folder / first).exists():
        raise UsageError(
            f"{first} sets a variable, which only a shell does. Put env before it: "
            f"env {first} …, or set it before hotlap."
        )
    if first.endswith(".py"):
        script = folder / first
        if not script.is_file():
            hint = " Leave out the quotes around the whole command." if " " in first else ""
            raise UsageError(
                f"The script {first} is not there (looked in {folder}). Check the path.{hint}"
            )
        return [sys.executable, first, *rest]
    if first.startswith("-"):
        raise UsageError(
            f"{first} is not an option of this verb. Options of hotlap stand before the command, "
            "options of the script after it."
        )
    if first.endswith(".ipynb") and (folder / first).is_file():
        raise UsageError(
            f"{first} is a notebook, which Python does not run. Make a script of it: "
            f"jupyter nbconvert --to script {shlex.quote(first)}"
        )
    if os.sep in first:
        path = folder / first
        if not path.exists():
            raise UsageError(f"The command {first} is not there (looked in {folder}).")
        if path.is_dir():
            raise UsageError(f"{first} is a folder; name the command that trains in it.")
        if not os.access(path, os.X_OK):
            raise UsageError(
                f"{first} cannot be executed. If it is a script, name its interpreter: "
                f"hotlap profile bash {first}"
            )
    elif shutil.which(first) is None:
        path = folder / first
        if path.is_dir():
            raise UsageError(f"{first} is a folder; name the command that trains in it.")
        hint = f" A file of that name is here: try ./{first}" if path.exists() else ""
        raise UsageError(f"The command {first} is not there: it is not on the PATH.{hint}")
    return [first, *rest]


def environment(
    plain: Mapping[str, str],
    *,
    trial: Path,
    variables: Mapping[str, str] | None = None,
    watched: bool = True,
    offline: bool = False,
) -> dict[str, str]:
    """The user's environment with our bootstrap folder on PYTHONPATH and the trial's folder.

    `variables` are those that optimizations want set. `offline` keeps trials out of the
    experiment trackers, which would show each of them as a run of the user's.
    """
    changed = {**plain, **(variables or {})}
    changed[TRIAL_VARIABLE] = str(trial)
    before = changed.get("PYTHONPATH")
    changed["PYTHONPATH"] = str(bootstrap_folder()) + (os.pathsep + before if before else "")
    if watched:
        changed.setdefault("PYTHONFAULTHANDLER", "1")
        changed.setdefault("KINETO_LOG_LEVEL", "99")  # the kernels pass says nothing in the log
    return {**TRACKERS, **changed} if offline else changed


def folders(command: Sequence[str], *, working: Path) -> list[str]:
    """What is to be covered: the working directory, home, and the folders the command names."""
    found = [str(working), str(Path.home())]
    for part in (part for word in command for part in _paths(word)):
        if os.sep not in part or "://" in part or len(part) > 4096:
            continue
        try:
            folder = _nearest(working / os.path.expanduser(part))
        except (OSError, ValueError):
            continue
        if not is_shared(folder):
            found.append(folder)
    return list(dict.fromkeys(found))


def _paths(word: str) -> Iterator[str]:
    """What may be a path: --out=DIR, -oDIR, a list, a bit of JSON, words for a shell."""
    yield word
    yield word.partition("=")[2]
    if glued := _GLUED.match(word):
        yield glued[1]
    if " " in word:
        with contextlib.suppress(ValueError):  # a quote that does not end
            for piece in shlex.split(word):
                if piece != word:
                    yield from _paths(piece)
    yield from _PATH.findall(_ADDRESS.sub(" ", word))


def _nearest(path: Path) -> str:
    """The folder it is, or that it would be made in."""
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return os.path.realpath(path)
