"""What a command printed, made readable."""

from __future__ import annotations

import re
from pathlib import Path

SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
# faulthandler shows every thread of a process that crashed; the one that samples is not the user's.
_OWN_THREAD = re.compile(
    r"^Thread 0x.*\n(?:  File .*\n)*?  File .*hotlap/probes/sampling\.py.*\n(?:  File .*\n)*", re.M
)


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of the command's output, without terminal control characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64_000))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n").replace("\b", "")
    text = _OWN_THREAD.sub("", text)
    kept = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n") if line.strip()]
    return "\n".join(kept[-lines:])
