"""Options of hotlap that stand behind the command: the script gets them, often without a word."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

LONGEST = 1 << 20  # bytes of a script that are looked at


def note(verb: str, options: Mapping[str, bool], command: Sequence[str]) -> str | None:
    """What to say, if anything; `options` tells of each whether a value follows it.

    A script may well have an option of the same name. It is told only where the script's own text
    does not know the word.
    """
    script = next((word for word in command if word.endswith(".py")), None)
    text = _text(script)
    if script is None or text is None:
        return None
    at = command.index(script) + 1
    moved, left = _parted(command[at:], {name: options[name] for name in _unknown(options, text)})
    if not moved:
        return None
    names = " and ".join(shlex.quote(word) for word in moved if word.startswith("--"))
    right = shlex.join(["hotlap", verb, *moved, *command[:at], *left])
    several = names.count("--") > 1
    return (
        f"{names} {'stand' if several else 'stands'} behind {script}, so the script gets "
        f"{'them' if several else 'it'}. Options of hotlap stand before the command: {right}"
    )


def _unknown(options: Mapping[str, bool], text: str) -> list[str]:
    words = set(re.findall(r"[A-Za-z]\w*", text))
    return [name for name in options if name[2:].replace("-", "_") not in words]


def _parted(words: Sequence[str], options: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    moved: list[str] = []
    left: list[str] = []
    value = False
    for word in words:
        name, given, _ = word.partition("=")
        if value or name in options:
            moved.append(word)
            value = not value and not given and options.get(name, False)
        else:
            left.append(word)
    return moved, left


def _text(script: str | None) -> str | None:
    try:
        with Path(script or "").open(errors="replace") as file:
            return file.read(LONGEST)
    except OSError:
        return None
