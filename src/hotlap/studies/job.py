"""One cell as a job of a batch system: `python -m hotlap.studies.job FOLDER`, on its node.

The folder holds the request; the answer is put beside it, whole or not at all. What handed the job
in counts up a file for as long as it lives: where that stands still, the job ends, so that nothing
runs on for somebody who was killed.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hotlap import machine, records
from hotlap.answers import Called, Done, Timed, Trained
from hotlap.errors import HotlapError, Interrupted
from hotlap.studies import surroundings
from hotlap.studies.runner import LocalRunner
from hotlap.studies.surroundings import Surroundings
from hotlap.trials.folder import TrialFolder

REQUEST, ANSWER = "request.json", "answer.json"
LOOK_SECONDS = 5.0
ALONE_SECONDS = 180.0  # file systems of clusters may take a while to show a change


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A cell to run; without one, what the node is."""

    cell: Timed | Trained | Called | None = None
    alive: str = ""  # the file that is counted up


class Response(msgspec.Struct, frozen=True, kw_only=True):
    done: Done | None = None
    around: Surroundings | None = None
    host: str = ""
    processor: str = ""
    gpu: str | None = None
    problem: str = ""  # a sentence for the user, where it could not be done
    warnings: tuple[str, ...] = ()


def main() -> int:
    folder = Path(sys.argv[1])
    request = msgspec.json.decode((folder / REQUEST).read_bytes(), type=Request)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    watch(Path(request.alive), lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        answer = respond(request, folder)
    except (Interrupted, KeyboardInterrupt):
        return Interrupted.exit_code
    records.write(msgspec.json.encode(answer), folder / ANSWER)
    return 0


def respond(request: Request, folder: Path) -> Response:
    warnings: list[str] = []
    host = os.environ.get("SLURMD_NODENAME") or platform.node()
    known: dict[str, Any] = {"host": host, "processor": machine.processor()}
    known["gpu"] = surroundings.gpu_name()
    try:
        if request.cell is None:
            return Response(around=surroundings.here(), **known)
        trial = TrialFolder(folder)
        trial.create()
        runner = LocalRunner(lambda name: trial, warn=warnings.append)
        done = runner.run(request.cell, progress=lambda state: None)
    except Interrupted:
        raise
    except HotlapError as problem:
        return Response(problem=str(problem), warnings=tuple(warnings), **known)
    return Response(done=done, warnings=tuple(warnings), **known)


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def watch(
    alive: Path,
    end: Callable[[], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], object] = time.sleep,
) -> threading.Thread:
    """Calls `end` once what the file holds has not changed for a long time."""

    def look() -> None:
        last, since = b"", clock()
        while clock() - since < ALONE_SECONDS:
            wait(LOOK_SECONDS)
            now = _content(alive)
            if now != last:
                last, since = now, clock()
        end()

    thread = threading.Thread(target=look, name="hotlap-alive", daemon=True)
    thread.start()
    return thread


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main())
