"""Runs one trial on this machine: starts the supervisor, follows the records, stops in time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.errors import HotlapError, UsageError
from hotlap.probes import reach
from hotlap.settings import OVERLAY_VARIABLE, Limits
from hotlap.trials import command as commands
from hotlap.trials import links, scratch, terminals
from hotlap.trials.folder import TrialFolder
from hotlap.trials.supervisor import readable
from hotlap.trials.telemetry import Telemetry
from hotlap.trials.terminals import Terminal

_PACKAGES = Path(__file__).parents[2]
_ENTRY = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from hotlap.trials.supervisor import main; main()"
)
POLL_SECONDS = 0.1
STRAGGLER_SECONDS = 10.0  # how long the other ranks may take once the first has measured enough


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial ended, as seen from outside."""

    code: int | None = None
    signal: int | None = None
    stopped: str | None = None  # why we stopped it: enough, timeout, stalled, interrupted
    seconds: float = 0.0
    idle: float = 0.0  # seconds since its last step, or since its start, when we stopped it
    started: float = 0.0
    protected: list[str] = field(default_factory=list)
    overlay_refused: str | None = None
    upper: Path | None = None
    left_running: list[str] = field(default_factory=list)
    telemetry: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is done to the command from outside."""

    recipe: dict[str, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    seed: int | None = None  # for scripts that do not seed themselves, so that trials compare


Progress = Callable[[dict[str, Any]], None]


def run(
    words: list[str],
    folder: TrialFolder,
    *,
    limits: Limits,
    working: Path,
    in_place: bool = False,
    losses: bool = False,
    trace: bool = False,
    watch: bool = True,
    changes: Changes | None = None,
    warn: Callable[[str], None] = lambda text: None,
    progress: Progress = lambda state: None,
) -> Outcome:
    """Runs the command until it ends, has measured enough, or has to be stopped.

    `losses` has the loss of every backward pass kept, which costs a clone a step; `trace` has what
    torch.profiler saw written down; `changes` are what a recipe does to the command. Without
    `watch` nothing is measured inside, and the limits' time-out is for the whole command.
    """
    command = commands.resolve(words, folder=working)
    with contextlib.ExitStack() as stack:
        terminal = stack.enter_context(terminals.opened(folder.output))
        with undisturbed() as early:  # it must not be started and left
            supervisor = stack.enter_context(
                _Supervisor(
                    command,
                    folder,
                    working=working,
                    in_place=in_place,
                    terminal=terminal,
                    variables=changes.variables if changes else {},
                )
            )
        for number in early:
            signal.raise_signal(number)
        covered = _heard(supervisor.answer(), folder)
        refused = None if in_place else covered["reason"]
        if refused:
            warn(
                f"The command's writes cannot be kept apart: {refused}. "
                "torch.save and TensorBoard logs are led into the trial's folder; anything else "
                "it writes lands where it always does."
            )
        elif warning := links.warning(supervisor.links, covered["protected"]):
            warn(warning)
        started = time.time()
        _write_settings(
            folder,
            limits,
            covered["protected"],
            in_place=in_place,
            losses=losses,
            trace=trace,
            watch=watch,
            changes=changes,
            started=started,
            supervisor=supervisor.pid,
        )
        supervisor.say(b"g")
        answer = _heard(supervisor.answer(), folder)
        if answer["event"] == "refused":
            raise UsageError(f"The command {words[0]} could not be started: {answer['reason']}.")
        telemetry = Telemetry(answer["pid"])
        telemetry.start()
        stopped, idle = None, 0.0
        try:
            stopped, idle = _follow(supervisor, folder, limits, progress)
        except KeyboardInterrupt:
            stopped = "interrupted"
        finally:
            late = stack.enter_context(undisturbed())
            supervisor.say(b"s")
            samples = telemetry.finish()
        ended = supervisor.answer()
        # It ended by itself in that moment; whoever interrupts us may have ended it as well.
        if not ended.get("stopped") and stopped != "interrupted":
            stopped = None
        if late:  # asked to stop while the command was being stopped: the caller is told
            stopped = "interrupted"
        return Outcome(
            code=ended.get("code"),
            signal=ended.get("signal"),
            stopped=stopped,
            seconds=time.time() - started,
            idle=idle,
            started=started,
            protected=covered["protected"],
            overlay_refused=refused,
            upper=Path(covered["upper"]) if covered["upper"] else None,
            left_running=ended.get("left_running", []),
            telemetry=samples,
        )


def _heard(answer: dict[str, Any], folder: TrialFolder) -> dict[str, Any]:
    """What the supervisor says before the command runs; it may have been killed, or have failed."""
    if answer["event"] == "ended":
        raise HotlapError(
            "The process that starts the command ended before it did so. "
            f"If it said why, that is in {folder.output}"
        )
    return answer


@contextlib.contextmanager
def undisturbed() -> Iterator[list[int]]:
    """Starting and stopping take seconds at most: Ctrl-C must not cut them short and leave things.

    Yields the signals that came meanwhile, for whoever comes after to heed.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in heeded:
        signal.signal(number, lambda n, frame: came.append(n))
    try:
        yield came
    finally:
        for number, handler in heeded.items():
            signal.signal(number, handler)


def _write_settings(
    folder: TrialFolder,
    limits: Limits,
    protected: list[str],
    *,
    in_place: bool,
    losses: bool,
    trace: bool,
    watch: bool,
    changes: Changes | None,
    started: float,
    supervisor: int,
) -> None:
    content = {
        "recipe": changes.recipe if changes else {},
        "seed": changes.seed if changes else None,
        "limits": limits.as_dict(),
        "protected": protected,
        "diverted": str(folder.diverted),
        "in_place": in_place,
        "losses": losses,
        "trace": trace,
        "watch": watch,
        "started": started,
        "supervisor": supervisor,
        "boot": reach.this_boot(),
        "pids": reach.these_pids(),
    }
    folder.settings.write_text(json.dumps(content))


def _follow(
    supervisor: _Supervisor, folder: TrialFolder, limits: Limits, progress: Progress
) -> tuple[str | None, float]:
    """Why the command is to be stopped, or None when it ended by itself; seconds without a step."""
    began = time.monotonic()
    first_complete: float | None = None
    last_change, last_states = began, ""
    while not supervisor.has_word(POLL_SECONDS):
        now = time.monotonic()
        states = [*_read_all(folder.progress)]
        complete = [state.get("stage") == "done" for state in states]
        changed = json.dumps(states)
        if changed != last_states:
            last_states, last_change = changed, now
        leader = max(states, key=lambda state: state.get("steps", 0), default=None)
        progress({"seconds": now - began, **(leader or {"stage": "start", "steps": 0})})
        idle = now - last_change
        if complete and all(complete):
            return "enough", idle
        if any(complete):
            first_complete = first_complete or now
            if now - first_complete > STRAGGLER_SECONDS:
                return "enough", idle
        elif idle > limits.timeout:
            return "timeout" if leader is None else "stalled", idle
    return None, 0.0


def _read_all(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and _is_state(content):
            yield content


def _is_state(content: dict[str, Any]) -> bool:
    """Whether it is what a watched process writes: nothing from there is trusted unseen."""
    seconds = content.get("step_seconds")
    return (
        isinstance(content.get("stage"), str)
        and isinstance(content.get("steps"), int)
        and (seconds is None or isinstance(seconds, (int, float)))
    )


class _Supervisor:
    """The running supervisor process and the two pipes to it."""

    def __init__(
        self,
        command: list[str],
        folder: TrialFolder,
        *,
        working: Path,
        in_place: bool,
        terminal: Terminal,
        variables: dict[str, str],
    ) -> None:
        control_read, self._control = os.pipe()
        self._status, status_write = os.pipe()
        self._buffer = b""
        self._answers: list[dict[str, Any]] = []
        self._spare = scratch.make()
        locks = scratch.locks()
        self._refused = None if in_place else _no_overlay(command)
        covered = not in_place and self._refused is None
        folders = commands.folders(command, working=working) if covered else []
        self.links = links.leading_out(folders, working=str(working))
        request = {
            "command": command,
            "folder": str(working),
            "protect": folders,
            "links": links.to_cover(self.links),
            "uppers": [str(folder.path), str(self._spare)],
            "trial": str(folder.path),
            "terminal": terminal.is_terminal,
            "locks": locks,
        }
        arguments = [str(_PACKAGES), str(control_read), str(status_write), json.dumps(request)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _ENTRY, *arguments],
                cwd=working,
                env=commands.environment(
                    os.environ, trial=folder.path, variables=variables, offline=not in_place
                ),
                stdin=terminal.stdin,
                stdout=terminal.output,
                stderr=terminal.output,
                pass_fds=(control_read, status_write, *locks),
                start_new_session=True,
            )
        finally:
            os.close(control_read)
            os.close(status_write)
            terminal.hand_over()

    def __enter__(self) -> _Supervisor:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._control)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._status)
        if not any(self._spare.iterdir()):
            scratch.remove(self._spare)

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._control, word)

    def has_word(self, seconds: float) -> bool:
        if self._answers:
            return True
        if readable(self._status, seconds=seconds):
            self._receive()
        return bool(self._answers)

    def _receive(self) -> None:
        received = os.read(self._status, 65536)
        if not received:
            self._answers.append({"event": "ended", "code": None, "signal": 9, "stopped": False})
        self._buffer += received
        *lines, self._buffer = self._buffer.split(b"\n")
        self._answers += [json.loads(line) for line in lines]

    def answer(self) -> dict[str, Any]:
        while not self._answers:
            self._receive()
        answer = self._answers.pop(0)
        if answer["event"] == "covered" and self._refused is not None:
            answer["reason"] = self._refused
        return answer


def _no_overlay(command: list[str]) -> str | None:
    """Why none is tried."""
    if os.environ.get(OVERLAY_VARIABLE) == "0":
        return f"{OVERLAY_VARIABLE}=0 is set"
    if os.path.basename(command[0]) == "srun":
        return "srun has it started by SLURM, out of hotlap's reach"
    return None
