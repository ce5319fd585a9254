"""hotlap tune: what makes a training command faster from outside, tried and proven."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotlap import api, recipes, tunings
from hotlap.cli.console import heeding_readers, results, show, warn, width
from hotlap.cli.options import (
    BEFORE_THE_COMMAND,
    COMMAND,
    Command,
    InPlace,
    Json,
    Out,
    names,
    number,
    whole,
)
from hotlap.cli.profile import Live, check_writable, live
from hotlap.cli.verbs import Verb
from hotlap.errors import Interrupted, UsageError
from hotlap.records import Profile
from hotlap.reports import tuning as report
from hotlap.tunings import Trial, Tuning

if TYPE_CHECKING:
    from hotlap.search.planning import Plan

_NUMBER = r"(\d+(?:\.\d+)?)"
_BUDGET = re.compile(rf"^(?:{_NUMBER}h)?(?:{_NUMBER}m(?:in)?)?(?:{_NUMBER}s)?$|^{_NUMBER}$")


def register(app: typer.Typer) -> None:
    app.command(
        "tune",
        cls=Verb,
        context_settings=BEFORE_THE_COMMAND,
        help=f"Find what makes a training command faster from outside, and prove it. {COMMAND}",
        short_help="Try the known optimizations and prove which pay.",
    )(tune)


def tune(
    command: Command = None,
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="TIME",
            show_default=False,
            help="Time for the search: 90s, 1h30m (10m).",
        ),
    ] = "10m",
    steps_planned: Annotated[
        int | None,
        typer.Option(
            "--steps-planned",
            metavar="N",
            parser=whole("--steps-planned"),
            help="Steps of the real training; then compiling has to pay within them.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Try only this (several: a,b)."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="NAME", help="Leave this out (several: a,b)."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="NAME",
            help="Allow one that changes what is learned: batch-size, gradient-accumulation.",
        ),
    ] = None,
    goal: Annotated[
        str,
        typer.Option(
            "--goal",
            metavar="GOAL",
            show_default=False,
            help="speed, or memory for the smallest peak (speed).",
        ),
    ] = "speed",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last tuning of this command.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be tried, and why not the rest.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write hotlap.toml even if there is one.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="S",
            parser=number("--timeout"),
            show_default=False,
            help="Give a trial up when no step comes for S seconds (300).",
        ),
    ] = 300.0,
    json: Json = None,
    out: Out = None,
    in_place: InPlace = False,
) -> None:
    if json is not None:
        check_writable(json)
    try:
        with live() as state:
            table = _Growing(state, goal)
            result = api.tune(
                command or [],
                budget=seconds(budget),
                steps_planned=steps_planned,
                only=names(only),
                skip=names(skip),
                allow=names(allow),
                goal=goal,
                resume=resume,
                dry_run=dry_run,
                timeout=timeout,
                out=out,
                in_place=in_place,
                warn=table.warn,
                progress=state,
                diagnosed=table.begin,
                tell=table.add,
            )
    except Interrupted as error:
        if error.tuning is not None:
            _finish(error.tuning, json, recipe=None)
        raise
    if dry_run:
        table.untried = list(result.trials)
    table.end()
    recipe = _copy_recipe(result, force=force)
    _finish(result, json, recipe=recipe)


def _finish(result: Tuning, json: Path | None, *, recipe: str | None) -> None:
    try:
        show("")
        show(report.outcome(result, recipe=recipe))
        show("")
        for line in report.closing(result, recipe=recipe, width=width()):
            results().print(line, soft_wrap=True)
    finally:
        if json is not None:
            tunings.save(result, json)


def seconds(text: str) -> float:
    """10m, 90s, 1h30m, or a plain number of seconds."""
    found = _BUDGET.match(text.strip().lower())
    if not found or not any(found.groups()):
        raise UsageError(f"--budget is {text!r}; say it like 10m, 90s or 1h30m.")
    hours, minutes, rest, plain = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + rest + plain


def _copy_recipe(result: Tuning, *, force: bool) -> str | None:
    """The winner as ./hotlap.toml, never over one that is there unless that is asked for."""
    if result.winner is None:
        return None
    target = Path(recipes.FILE)
    if target.exists() and not force:
        warn(f"{target} is there already and stays as it is; --force replaces it.")
        return None
    try:
        from hotlap.api.tuning import comments

        recipes.Recipe(result.winner.recipe).save(target, *comments(result))
    except UsageError as problem:
        warn(f"{problem} The recipe is in the run's folder.")
        return None
    return recipes.FILE


class _Growing:
    """The table: a row is printed as soon as it is known; what was not tried comes last."""

    def __init__(self, live: Live, goal: str) -> None:
        self._live = live
        self._goal = goal
        self._console = results()
        self._width = min(140, shutil.get_terminal_size((140, 24)).columns)
        self._begun = False  # a head has no business over no row
        self.untried: list[Trial] = []

    def warn(self, text: str) -> None:
        with self._live.paused():
            warn(text)

    def begin(self, profile: Profile, plan: Plan) -> None:
        with self._live.paused():
            show(report.intro(profile))

    def add(self, trial: Trial) -> None:
        if trial.step_seconds is None and not trial.runs:
            self.untried.append(trial)
        else:
            if not self._begun:
                self._begun = True
                self._print("")
                self._print(report.header(self._width, self._goal))
            self._print(report.row(trial, self._width, self._goal))

    def end(self) -> None:
        block = report.untried(self.untried)
        if block is not None:
            show("")
            show(block)

    def _print(self, line: object) -> None:
        with self._live.paused(), heeding_readers():
            self._console.print(line, soft_wrap=True)
            self._console.file.flush()
