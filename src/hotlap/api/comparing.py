"""hotlap.compare: what differs between two results that are there already."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

from hotlap import __version__, comparisons
from hotlap.answers import Answer
from hotlap.api import results
from hotlap.api.results import Result
from hotlap.comparisons import Comparison, Side
from hotlap.differences import profiles, settings, studies, tunings
from hotlap.differences.profiles import Pair
from hotlap.errors import UsageError
from hotlap.records import Profile
from hotlap.reports import wording
from hotlap.tunings import Tuning

Source = str | os.PathLike[str] | Profile | Tuning | Answer
Named = tuple[Result, str]  # the result, and what it is called


def compare(before: Source, after: Source) -> Comparison:
    """What differs between two profiles, two tunings or two studies of one name.

    before, after: folders of runs, files that `--json` wrote, or what the verbs answered.

    Raises `UsageError` where they cannot be compared or read.
    """
    return between(_loaded(before), _loaded(after))


def between(before: Named, after: Named) -> Comparison:
    """The same of two that were read already."""
    (ours, first), (theirs, second) = before, after
    kinds = results.kind(ours), results.kind(theirs)
    if kinds[0] != kinds[1]:
        raise UsageError(
            f"{first} is a {kinds[0]}, {second} is a {kinds[1]}. Name two of one kind."
        )
    for one, name in (before, after):
        _check(one, name)
    found: dict[str, Any]
    if isinstance(ours, Profile) and isinstance(theirs, Profile):
        found = _profiles(Pair(before=ours, after=theirs))
    elif isinstance(ours, Tuning) and isinstance(theirs, Tuning):
        found = _tunings(ours, theirs)
    else:
        assert isinstance(ours, Answer)
        assert isinstance(theirs, Answer)
        found = _studies(ours, theirs)
    if ours == theirs:
        found["notes"] = ("Both are the same run.",) if found["outcome"] else ()
        if not found["outcome"]:
            found["summary"] = "Both are the same run: there is nothing to compare."
    return Comparison(
        schema=comparisons.SCHEMA,
        hotlap=__version__,
        kind=kinds[0].split()[0],
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        before=_side(ours, first),
        after=_side(theirs, second),
        **found,
    )


def _loaded(source: Source) -> Named:
    if isinstance(source, (Profile, Tuning, Answer)):
        return source, source.folder
    file = results.find(Path(source))
    return results.load(file), str(source)


def _check(result: Result, source: str) -> None:
    """A step of no seconds was never measured: somebody has changed the file."""
    if isinstance(result, Answer):
        return
    step = (result.baseline if isinstance(result, Tuning) else result).step
    for value in (step.median_seconds, step.mean_seconds, step.samples or 1.0):
        if not 0 < value < math.inf:
            raise UsageError(
                f"{source} has a step of {step.median_seconds:g} s (mean {step.mean_seconds:g} s, "
                f"{step.samples} samples), which cannot have been measured. Name another one."
            )


def _side(result: Result, source: str) -> Side:
    machine: dict[str, Any]
    if isinstance(result, Answer):
        machine, command = result.machine, wording.study_command(result)
    else:
        profile = result.baseline if isinstance(result, Tuning) else result
        machine, command = profile.environment, wording.command(result.command)
    return Side(
        source=source,
        created=result.created,
        hotlap=result.hotlap,
        command=command,
        machine=wording.on(machine),
    )


def _profiles(pair: Pair) -> dict[str, Any]:
    found = tuple(profiles.figures(pair))
    return {
        "summary": profiles.summary(pair),
        "outcome": found[0].outcome,
        "figures": found,
        "changes": settings.of_profiles(pair.before, pair.after),
        "findings": tuple(profiles.findings(pair)),
        "notes": tuple(profiles.notes(pair)),
    }


def _tunings(before: Tuning, after: Tuning) -> dict[str, Any]:
    pair = Pair(before=before.baseline, after=after.baseline)
    found = tuple(tunings.figures(before, after))
    tuned = next((one.outcome for one in found if one.name.startswith(tunings.TUNED)), "")
    return {
        "summary": tunings.summary(before, after),
        "outcome": tuned,
        "figures": found,
        "changes": (
            *tunings.recipes(before, after),
            *settings.of_profiles(before.baseline, after.baseline),
        ),
        "findings": tuple(profiles.findings(pair)),
        "guard": tunings.guard(before, after),
        "notes": tuple(tunings.notes(before, after)),
    }


def _studies(before: Answer, after: Answer) -> dict[str, Any]:
    found = tuple(studies.figures(before, after))
    options = dict.fromkeys((*before.options, *after.options))
    return {
        "summary": studies.summary(before, after, found),
        "outcome": studies.outcome(after, found),
        "column": studies.column(after, found),
        "figures": found,
        "changes": (
            *(
                change
                for name in options
                for change in settings.different(
                    f"--{name}", before.options.get(name), after.options.get(name)
                )
            ),
            *settings.of_machines(before.machine, after.machine),
        ),
        "notes": tuple(studies.notes(before, after)),
    }
