"""Which tuning `--resume` goes on with: the newest of the same thing, not of the same words."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from hotlap import machine, units
from hotlap.search.book import Request
from hotlap.studies import surroundings
from hotlap.trials import identity
from hotlap.trials.folder import RunFolder
from hotlap.trials.journal import Journal

BUDGET_SECONDS = 600.0
TIMEOUT_SECONDS = 300.0
GOALS = ("speed", "memory")
NEW = "A new tuning is started."


def run_folder(
    words: list[str],
    working: Path,
    home: Path | None,
    *,
    resume: bool,
    warn: Callable[[str], None],
) -> tuple[RunFolder, Journal]:
    about = {**identity.of(words, working), "the device": _device()}
    run = _same(words, about, home, warn) if resume else None
    if run is None:
        run = RunFolder.new("tune", out=home)
        run.lock()
        run.remember(words, about)
        return run, Journal(run.journal)
    run.lock()
    journal = Journal(run.journal)
    journal.read()
    finished = units.plural(journal.known, "finished run")
    are = "is" if journal.known == 1 else "are"
    warn(f"Going on in {run.path}: {finished} {are} taken from there.")
    return run, journal


def go_on(
    words: list[str], request: Request, *, timeout: float, home: Path | None, in_place: bool
) -> str:
    """What to type to go on, with the options as they were given."""
    choice = request.choice
    given: list[tuple[str, object]] = [
        ("--budget", f"{request.budget:.12g}s" if request.budget != BUDGET_SECONDS else None),
        ("--steps-planned", request.steps_planned),
        *[("--only", name) for name in choice.only],
        *[("--skip", name) for name in choice.skip],
        *[("--allow", name) for name in choice.allow],
        ("--goal", choice.goal if choice.goal != GOALS[0] else None),
        ("--timeout", f"{timeout:.12g}" if timeout != TIMEOUT_SECONDS else None),
        ("--out", home),
    ]
    options = [part for name, value in given if value for part in (name, str(value))]
    options += ["--in-place"] if in_place else []
    return shlex.join(["hotlap", "tune", "--resume", *options, *words])


def _same(
    words: list[str], about: dict[str, str], home: Path | None, warn: Callable[[str], None]
) -> RunFolder | None:
    """None where there is none, with a sentence that says why."""
    known = list(RunFolder.known("tune", command=words, out=home))
    for run in known:
        if run.about == about:
            return run
    if not known:
        warn(f"There is no tuning of this command to go on with. {NEW}")
    elif not known[0].about:
        warn(
            f"{known[0].path} is of an older hotlap, which did not note the script it ran: whether "
            f"its runs still count cannot be told. {NEW}"
        )
    else:
        what = identity.first_change(known[0].about, about)
        warn(
            f"Since the tuning in {known[0].path}, {what} has changed: its runs do not count. {NEW}"
        )
    return None


def _device() -> str:
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    gpu = surroundings.gpu_name()
    cpu = f"{machine.processor()}, {machine.cores():g} cores"
    return f"{cpu}; {gpu}, {shown}" if gpu else cpu
