"""hotlap.tune: trials of the command under one recipe after the other, until the best is proven."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap import __version__, optimizations, records, tunings, units
from hotlap.api import outcome
from hotlap.api.failures import counted, failed, how_it_failed, why_nothing
from hotlap.api.machine import Watched
from hotlap.api.profiling import as_words, forget, working_directory
from hotlap.api.resuming import BUDGET_SECONDS, GOALS, TIMEOUT_SECONDS, go_on, run_folder
from hotlap.errors import CommandFailed, Interrupted, UsageError
from hotlap.optimizations.sample_cache import FOLDER_VARIABLE
from hotlap.recipes import Recipe, check_names
from hotlap.records import Profile
from hotlap.reports import html
from hotlap.rules import WITH_ANY_FIGURE, busy_machine
from hotlap.search import comparing
from hotlap.search.book import Request
from hotlap.search.planning import Candidate, Choice, Plan, plan
from hotlap.search.tuner import Found, Tuner
from hotlap.settings import Limits
from hotlap.trials import scratch
from hotlap.trials.command import resolve
from hotlap.trials.folder import RunFolder
from hotlap.trials.measuring import LocalMachine, Where
from hotlap.trials.output import ending
from hotlap.tunings import Run, Trial, Tuning

TIMED = Limits(
    bare=True, seconds=5.0, window_seconds=0.4, guard_steps=48, guard_seconds=6.0, guard_fill=2.0
)
FULL = replace(TIMED, bare=False, seconds=6.0)


def tune(
    command: str | Sequence[str],
    *,
    budget: float = BUDGET_SECONDS,
    steps_planned: int | None = None,
    only: str | Sequence[str] = (),
    skip: str | Sequence[str] = (),
    allow: str | Sequence[str] = (),
    goal: str = "speed",
    resume: bool = False,
    dry_run: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    warn: Callable[[str], None] = lambda text: None,
    progress: Callable[[dict[str, Any]], None] = lambda state: None,
    diagnosed: Callable[[Profile, Plan], None] = lambda profile, plan: None,
    tell: Callable[[Trial], None] = lambda trial: None,
) -> Tuning:
    """Finds what makes a training command faster, from outside, and proves it.

    command: the words one would type (`["train.py", "--epochs", "90"]`), or the line itself.
    budget: seconds the search may take (600).
    steps_planned: how many steps the real training has; the choice is then by total time.
    only, skip: names of optimizations to try alone, or to leave out; or a single one.
    allow: names of those that change what is learned (`batch-size`) and may be used all the same.
    goal: `speed`, or `memory` for the smallest peak.
    resume: go on with the last tuning of this command; finished trials are not run again.
    dry_run: only the diagnosis and the plan.
    timeout: a trial without a step for so many seconds is given up.
    warn, progress, diagnosed, tell: called with sentences, states, the diagnosis and each row.

    Raises `UsageError`, `CommandFailed`, `NothingMeasured` or `Interrupted`.
    """
    words = as_words(command)
    request = _request(budget, timeout, steps_planned, only, skip, allow, goal)
    working = working_directory()
    home = Path(out) if out is not None else None
    resolve(words, folder=working)  # before anything is said of an earlier tuning
    run, journal = run_folder(words, working, home, resume=resume, warn=warn)
    again = go_on(words, request, timeout=timeout, home=home, in_place=in_place)
    began = time.monotonic()
    with closing(run), _caches() as variables:
        where = Where(
            words=words,
            working=working,
            in_place=in_place,
            variables=variables,
            warn=_once(warn),
            progress=progress,
        )
        local = LocalMachine(
            where, run.trial, timed=TIMED, full=FULL, timeout=timeout, before=run.trials
        )
        machine = Watched(local, journal, words, run)
        tuner, interrupted = None, False
        try:
            first, baseline = _diagnose(machine, words, timeout)
            tuner = Tuner(machine, baseline, first, request, tell=tell, say=warn)
            choices = plan(baseline, baseline.verdict, request.choice)
            diagnosed(baseline, choices)
            found = _planned(tuner.found, choices) if dry_run else tuner.tune()
        except UsageError:
            forget(run, None)
            raise
        except (Interrupted, KeyboardInterrupt):
            if tuner is None:
                raise Interrupted(
                    "Interrupted before the baseline was known. What was finished is kept; "
                    f"go on with {again}"
                ) from None
            interrupted, found = True, tuner.found
        runs = tuner.baseline_runs()
        seconds = time.monotonic() - began
        result = _conclude(found, baseline, runs, words, run, request, seconds, interrupted)
        if not (dry_run and run.tuning.exists()):  # never over a result that took its time
            _save(result, run)
        if interrupted:
            rows = units.plural(len(result.trials), "row")
            raise Interrupted(
                f"Interrupted. {rows} kept in {run.tuning}; go on with {again}",
                tuning=result,
            )
        return result


def _request(
    budget: float,
    timeout: float,
    steps_planned: int | None,
    only: str | Sequence[str],
    skip: str | Sequence[str],
    allow: str | Sequence[str],
    goal: str,
) -> Request:
    only, skip, allow = map(_names, (only, skip, allow))
    for option, names in (("--only", only), ("--skip", skip), ("--allow", allow)):
        check_names(names, option=option)
    if goal not in GOALS:
        raise UsageError(f"--goal is {goal}; it is one of {', '.join(GOALS)}.")
    for option, limit in (("--budget", budget), ("--timeout", timeout)):
        if isinstance(limit, bool) or not isinstance(limit, (int, float)):
            raise UsageError(f"{option} is {limit!r}; it must be a number of seconds.")
        if not 0 < limit < math.inf:
            raise UsageError(f"{option} is {limit:g} s; it must be positive.")
    for name in only:
        if name in skip:
            raise UsageError(f"--only and --skip both name {name}; then nothing is left of it.")
        if optimizations.named(name).NUMERICS == "changes" and name not in allow:
            raise UsageError(
                f"--only {name}: it changes what is learned, so it takes --allow {name} as well."
            )
    if steps_planned is not None and steps_planned < 1:
        raise UsageError(f"--steps-planned is {steps_planned}; it must be positive.")
    choice = Choice(only=only, skip=skip, allow=allow, goal=goal)
    return Request(choice=choice, budget=budget, steps_planned=steps_planned)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    """A single name is one name, not its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def _diagnose(machine: Watched, words: list[str], timeout: float) -> tuple[Run, Profile]:
    run, profile = machine.profile(Recipe(), limit=timeout)
    measured = machine.last
    if measured is None:  # taken from an earlier tuning
        if profile is None:
            raise UsageError("The tuning to go on with has no diagnosis; start a new one.")
        return run, profile
    if profile is None:
        limits = replace(FULL, timeout=timeout)
        raise why_nothing(words, measured.outcome, machine.folder, limits)
    if measured.outcome.stopped is None and failed(measured.outcome):
        raise CommandFailed(
            f"{how_it_failed(words, measured.outcome)} after "
            f"{counted(measured.outcome, profile.step.seen)}, without "
            f"any change to it. Its output is in {machine.folder.output}",
            output=ending(machine.folder.output),
            profile=profile,
        )
    return run, profile


def _planned(found: Found, choices: Plan) -> Found:
    rows = [
        Trial(
            name=candidate.label,
            recipe=dict(candidate.on(Recipe()).changes),
            status=tunings.SKIPPED,
            reason=_what_it_could_save(candidate),
        )
        for candidate in choices.candidates
    ]
    return replace(found, trials=[*rows, *choices.refused])


def _what_it_could_save(candidate: Candidate) -> str:
    others = [name for name in candidate.on(Recipe()).changes if name != candidate.name]
    tried = f"would be tried with {units.listed(others)}" if others else "would be tried"
    of = "memory" if candidate.of_memory else "step"
    return f"{tried}, could save up to {units.share(candidate.could_save)} of the {of}"


def _conclude(
    found: Found,
    baseline: Profile,
    runs: list[Run],
    words: list[str],
    run: RunFolder,
    request: Request,
    seconds: float,
    interrupted: bool,
) -> Tuning:
    noise = comparing.floor(runs, found.spread)
    return Tuning(
        schema=tunings.SCHEMA,
        hotlap=__version__,
        command=tuple(words),
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        folder=str(run.path),
        goal=request.choice.goal,
        budget_seconds=request.budget,
        options=_options(request),
        seconds=seconds,
        baseline=baseline,
        noise=noise,
        trials=tuple(found.trials),
        winner=found.winner,
        summary=outcome.sentence(
            found,
            noise,
            request.choice.goal,
            interrupted=interrupted,
            meanwhile=_meanwhile(baseline),
        ),
        complete=not interrupted,
        notes=tuple(
            finding.summary for finding in baseline.findings if finding.rule in WITH_ANY_FIGURE
        ),
        baseline_runs=tuple(runs),
    )


def _meanwhile(baseline: Profile) -> str:
    """What others did on the machine, where that was so much that figures suffer."""
    busy = (one.evidence for one in baseline.findings if one.rule == busy_machine.NAME)
    return next(busy, "")


def _options(request: Request) -> dict[str, Any]:
    choice = request.choice
    given = {
        "only": list(choice.only),
        "skip": list(choice.skip),
        "allow": list(choice.allow),
        "steps_planned": request.steps_planned,
    }
    return {name: value for name, value in given.items() if value}


def _save(result: Tuning, run: RunFolder) -> None:
    tunings.save(result, run.tuning)
    if result.winner is not None:
        Recipe(result.winner.recipe).save(run.recipe, *comments(result))
    records.write(html.render(result).encode(errors="replace"), run.report)


def comments(result: Tuning) -> list[str]:
    """What a recipe file says about where it comes from."""
    environment = result.baseline.environment
    device = environment.get("device_name") or environment.get("processor") or "CPU"
    return [
        "hotlap recipe for: " + shlex.join(result.command).replace("\n", " "),
        result.summary,
        f"measured on {device}, torch {environment.get('torch')}, {result.created[:10]}",
        "Use it with: hotlap run --recipe THIS_FILE COMMAND",
    ]


@contextmanager
def _caches() -> Any:
    """Caches of this tuning alone: its first compilation is a cold one."""
    folder = scratch.make()
    try:
        yield {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            FOLDER_VARIABLE: str(folder / "samples"),
        }
    finally:
        scratch.remove(folder)


def _once(warn: Callable[[str], None]) -> Callable[[str], None]:
    """What is true of every trial is said with the first."""
    said: set[str] = set()

    def first(text: str) -> None:
        if text not in said:
            said.add(text)
            warn(text)

    return first
