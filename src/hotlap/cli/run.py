"""hotlap run: trains for real under a recipe; everything else about the command is its own."""

from __future__ import annotations

import contextlib
import json as encoder
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotlap import api, records
from hotlap.cli.options import BEFORE_THE_COMMAND, COMMAND, Command
from hotlap.cli.profile import check_writable
from hotlap.cli.verbs import Verb

if TYPE_CHECKING:
    from hotlap.api.running import Ran


def register(app: typer.Typer) -> None:
    app.command(
        "run",
        cls=Verb,
        context_settings=BEFORE_THE_COMMAND,
        help=f"Train for real under a recipe: ./hotlap.toml, or the one named. {COMMAND}",
        short_help="Train for real under a recipe.",
    )(run)


def run(
    command: Command = None,
    recipe: Annotated[
        str | None,  # a Path would make the empty one a dot
        typer.Option(
            "--recipe", metavar="FILE", help="The recipe; without it ./hotlap.toml, or none."
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write what was applied to FILE."),
    ] = None,
) -> None:
    if json is not None:
        check_writable(json)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # the command ignores what we do
            signal.signal(number, signal.SIG_DFL)  # handed on to the command while it runs
    ran = api.run(command or [], recipe=recipe)
    if json is not None:
        records.write(encoder.dumps(_result(ran), indent=2).encode() + b"\n", json)
    print(said(ran), file=sys.stderr, flush=True)
    if ran.signal is not None:
        _end_like(ran.signal)
    sys.exit(ran.code)


def said(ran: Ran) -> str:
    """One line: what was applied and what could not be."""
    if not ran.recipe and ran.source is not None:
        return f"hotlap: the recipe {ran.source} is empty, so the command ran as it is."
    if not ran.recipe:
        return "hotlap: no recipe, so the command ran as it is (hotlap tune makes one)."
    wholly = [name for name in ran.applied if name not in ran.ended and name not in ran.in_part]
    parts = [f"applied {', '.join(wholly) or 'nothing'}"] if wholly or not ran.applied else []
    for words, reasons in (
        ("applied at first", ran.ended),
        ("applied in part", ran.in_part),
        ("not applied", ran.refused),
    ):
        if reasons:
            parts.append(f"{words}: {_with_reasons(reasons)}")
    return "hotlap: " + " ".join("; ".join(parts).split()) + "."


def _with_reasons(reasons: dict[str, str]) -> str:
    """Names that share a reason stand together before it."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(those)} ({why})" for why, those in names.items())


def _result(ran: Ran) -> dict[str, object]:
    return {
        "schema": 1,
        "code": ran.code,
        "signal": ran.signal,
        "recipe": dict(ran.recipe.changes),
        "applied": ran.applied,
        "refused": ran.refused,
        "ended": ran.ended,
        "in_part": ran.in_part,
    }


def _end_like(number: int) -> None:
    """Ends by the same signal as the command did, so that a shell sees what it would have."""
    with contextlib.suppress(OSError):  # SIGKILL takes no handler and needs none
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
