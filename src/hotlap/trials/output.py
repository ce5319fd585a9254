"""What a command printed, made readable."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SIGNALS = {one.value: one.name for one in signal.Signals}
# faulthandler shows every thread of a process that crashed; the one that samples is not the user's.
_OWN_THREAD = re.compile(
    r"^Thread 0x.*\n(?:  File .*\n)*?  File .*hotlap/probes/sampling\.py.*\n(?:  File .*\n)*", re.M
)
# A rank names itself before each line.
_TRACEBACK = re.compile(r"^(\[\w+\]:\s?|)Traceback \(most recent call last\)")
_FRAME = re.compile(r'^\s*File "([^"]+)", line \d+')
_LIBRARIES = re.compile(r"site-packages|dist-packages|/lib/python\d|/bin/[^/]+$|^<frozen")
_FIRST_TO_FAIL = re.compile(r"^Root Cause.*?^\s*rank\s*: (\d+)", re.M | re.S)  # torchrun's word
LONGEST_TRACEBACK = 24  # lines
LEAST_TAIL = 8


@dataclass(frozen=True)
class _Traceback:
    who: str  # `[rank1]: `, or nothing
    lines: list[str]
    end: int  # the line after it


def ending(log: Path, lines: int = 30) -> str:
    """The last lines of a command that failed; before them its own traceback, if others hide it."""
    kept = _readable(log)
    last = kept[-lines:]
    own = _own_traceback(kept)
    if own is None or own.end > len(kept) - len(last):
        return "\n".join(last)
    shown = own.lines
    if len(shown) > LONGEST_TRACEBACK:
        shown = [shown[0], f"{own.who}  …", *shown[2 - LONGEST_TRACEBACK :]]
    return "\n".join([*shown, "…", *kept[-max(LEAST_TAIL, lines - len(shown)) :]])


def _own_traceback(kept: list[str]) -> _Traceback | None:
    """The script's last one, if a launcher's follows; of the rank that failed first, if known."""
    every = list(_tracebacks(kept))
    own = [one for one in every if _is_scripts(one)]
    if not own or own[-1] is every[-1]:
        return None
    first = _FIRST_TO_FAIL.findall("\n".join(kept))
    of_first = [one for one in own if first and one.who.startswith(f"[rank{first[-1]}]")]
    return (of_first or own)[-1]


def _tracebacks(kept: list[str]) -> Iterator[_Traceback]:
    for start, line in enumerate(kept):
        begins = _TRACEBACK.match(line)
        if begins is None:
            continue
        who, taken = begins[1], [line]
        for number, following in enumerate(kept[start + 1 :], start + 2):
            if not following.startswith(who):  # another rank's line in between
                continue
            taken.append(following)
            if not following[len(who) :].startswith(" "):
                yield _Traceback(who, taken, number)
                break


def _is_scripts(one: _Traceback) -> bool:
    frames = [_FRAME.match(line[len(one.who) :]) for line in one.lines]
    return any(frame is not None and not _LIBRARIES.search(frame[1]) for frame in frames)


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of the command's output, without terminal control characters."""
    return "\n".join(_readable(log)[-lines:])


def _readable(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64_000))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n").replace("\b", "")
    text = _OWN_THREAD.sub("", text)
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n") if line.strip()]
