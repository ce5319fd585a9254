"""hotlap profile: where the steps of an untouched training command go."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from hotlap import api, records, units
from hotlap.cli.console import notices, show, stop_if_deserted, warn
from hotlap.cli.options import (
    BEFORE_THE_COMMAND,
    COMMAND,
    Command,
    InPlace,
    Json,
    Out,
    number,
    whole,
)
from hotlap.cli.verbs import Verb
from hotlap.errors import CommandFailed, Interrupted, UsageError
from hotlap.reports import terminal

_STAGES = {
    "start": "starting",
    "warmup": "warming up",
    "bare": "timing steps",
    "phases": "timing phases",
    "memory": "reading memory",
    "kernels": "looking at kernels",
    "done": "done",
}


def register(app: typer.Typer) -> None:
    app.command(
        "profile",
        cls=Verb,
        context_settings=BEFORE_THE_COMMAND,
        help=f"Run a training command as it is and show where its steps go. {COMMAND}",
        short_help="Show where every step of a training command goes.",
    )(profile)


def profile(
    command: Command = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", metavar="N", parser=whole("--steps"), help="Measure at most N steps (2000)."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="S",
            parser=number("--seconds"),
            help="Measure at most S seconds (30).",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="S",
            parser=number("--timeout"),
            help="Give up when no step comes for S seconds (600).",
        ),
    ] = None,
    json: Json = None,
    out: Out = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Write a few steps to FILE, for Perfetto or TensorBoard.",
        ),
    ] = None,
    in_place: InPlace = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the files the command wrote in the run's folder.")
    ] = False,
) -> None:
    for option, path in (("--json", json), ("--trace", trace)):
        if path is not None:
            check_writable(path, option=option)
    try:
        with live() as show:
            result = api.profile(
                command or [],
                steps=steps,
                seconds=seconds,
                timeout=timeout,
                out=out,
                in_place=in_place,
                keep=keep,
                trace=trace,
                warn=warn,
                progress=show,
            )
    except (CommandFailed, Interrupted) as error:
        if error.profile is not None:
            show_result(error.profile, json)
        raise
    show_result(result, json)


def show_result(result: records.Profile, json: Path | None) -> None:
    try:
        show(terminal.render(result))
    finally:
        if json is not None:
            records.save(result, json)


def check_writable(path: Path, *, option: str = "--json") -> None:
    """An output that cannot be written is told before the run, not after it."""
    folder = path.absolute().parent
    if str(path) == "-":
        raise UsageError(f"{option} writes a file; give it a name (- is none).")
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it.")
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: the folder {folder} is not there. Create it first.")
    if path.exists() and not path.is_file():
        return  # a device or a pipe: written to as it is
    try:
        if path.exists():
            path.open("ab").close()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise UsageError(
            f"{option} {path} cannot be written: {problem.strerror}. Name another file."
        ) from problem


class Live:
    """One line that moves while the command runs, on a terminal only."""

    def __init__(self, status: Status | None) -> None:
        self._status = status

    def __call__(self, state: dict[str, Any]) -> None:
        stop_if_deserted()
        if self._status is None:
            return
        words = [state.get("where") or _STAGES.get(state.get("stage", ""), "running")]
        if state.get("recipe"):
            words.insert(0, str(state["recipe"])[:60])
        if state.get("steps"):
            words.append(f"step {state['steps']:,}")
        if state.get("step_seconds"):
            words.append(f"{units.seconds(state['step_seconds'])} a step")
        words.append(f"{state['seconds']:.0f} s")
        self._status.update("  ".join(words))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While something else is printed."""
        if self._status is not None:
            self._status.stop()
        try:
            yield
        finally:
            if self._status is not None:
                self._status.start()


@contextmanager
def live() -> Iterator[Live]:
    console = notices()
    if not console.is_terminal:
        yield Live(None)
        return
    with console.status("starting", spinner="dots") as status:
        yield Live(status)
