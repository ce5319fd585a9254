"""Two tunings: the command as it is then and now, and what their recipes make of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hotlap import units
from hotlap.comparisons import Change, Figure
from hotlap.differences import contrasts, profiles
from hotlap.recipes import Recipe
from hotlap.records import PHASES
from hotlap.reports import wording
from hotlap.rules import busy_machine
from hotlap.rules.busy_machine import crowded
from hotlap.search import guarding, rows
from hotlap.tunings import Guard, Run, Speedup, Tuning

AS_IS, TUNED = "as it is", "with its recipe"


def _through(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.status is None]


def busy(before: Tuning, after: Tuning) -> list[str]:
    """Which of them had no quiet run of the command as it is, or of what it found."""
    both = {"first": before, "second": after}
    return [
        name
        for name, one in both.items()
        if any(_busy(one, runs) for runs in (one.baseline_runs, _best(one)))
    ]


def _busy(tuning: Tuning, runs: Sequence[Run]) -> bool:
    """Whether none of these runs was quiet: by what others burned, or by what a profile found."""
    known = _through(runs)
    cores = float(tuning.baseline.environment.get("cores") or 1)
    loud = [run for run in known if crowded(run.other_cores, cores)]
    found = any(one.rule == busy_machine.NAME for one in tuning.baseline.findings)
    return bool(known) and (len(loud) == len(known) or (found and not loud))


def as_is(before: Tuning, after: Tuning) -> Speedup | None:
    return _gain(before, after, before.baseline_runs, after.baseline_runs)


def tuned(before: Tuning, after: Tuning) -> Speedup | None:
    """Each with what it found; the command as it is where it found nothing."""
    return _gain(before, after, _best(before), _best(after))


def _best(tuning: Tuning) -> Sequence[Run]:
    return tuning.baseline_runs if tuning.winner is None else wording.winners_runs(tuning)


def _gain(
    before: Tuning, after: Tuning, ours: Sequence[Run], theirs: Sequence[Run]
) -> Speedup | None:
    """The noise is that of all runs of both, recipe by recipe.

    None where the machine was busy all the time in one of them: in the other it was not as busy.
    """
    if _busy(before, ours) or _busy(after, theirs):
        return None
    arms = [
        _through(runs)
        for one in (before, after)
        for runs in (one.baseline_runs, *(trial.runs for trial in one.trials))
    ]
    both = _through(ours), _through(theirs)
    if any(run.sample_seconds is None for run in (*both[0], *both[1])):
        # the time of a step is not to be held against that of a sample
        both = _by_step(both[0]), _by_step(both[1])
        arms = [_by_step(runs) for runs in arms]
    return contrasts.gain(*both, arms)


def _by_step(runs: Sequence[Run]) -> list[Run]:
    return [msgspec.structs.replace(run, sample_seconds=None) for run in runs]


# Figures -------------------------------------------------------------------------------------


def figures(before: Tuning, after: Tuning) -> Iterator[Figure]:
    yield from _steps(AS_IS, before.baseline_runs, after.baseline_runs, as_is(before, after))
    yield from _steps(TUNED, _best(before), _best(after), tuned(before, after))
    if before.winner is not None and after.winner is not None:
        ours, theirs = before.winner.speedup, after.winner.speedup
        about = ("gain over as it is", "gain", "ratio")
        ends = (ours.low, ours.high), (theirs.low, theirs.high)
        if busy(before, after):
            yield from contrasts.plain(*about, ours.ratio, theirs.ratio)
        else:
            yield contrasts.between(*about, (ours.ratio, theirs.ratio), ends)
    if _same_memory(before, after):
        for name, one, other in (
            (AS_IS, rows.peak(before.baseline_runs), rows.peak(after.baseline_runs)),
            (TUNED, rows.peak(_best(before)), rows.peak(_best(after))),
        ):
            yield from contrasts.plain(name, "memory", "bytes", one, other)
    phases = _phases(before), _phases(after)
    for name in PHASES:
        yield from contrasts.plain(name, "phases", "seconds", *(one[name] for one in phases))


def _same_memory(before: Tuning, after: Tuning) -> bool:
    """Bytes of a process and bytes on a device are not the same thing."""
    return before.baseline.memory.kind == after.baseline.memory.kind


def _phases(tuning: Tuning) -> dict[str, float | None]:
    """Of the step as it is, in the shares its profile has: they add up to what stands above."""
    step = rows.step(tuning.baseline_runs) or tuning.baseline.step.whole_seconds
    found = tuning.baseline.phases
    return {name: None if (share := found[name].share) is None else share * step for name in PHASES}


def _steps(
    name: str, before: Sequence[Run], after: Sequence[Run], gain: Speedup | None
) -> Iterator[Figure]:
    ours, theirs = rows.step(before), rows.step(after)
    rates = rows.rate(before), rows.rate(after)
    if _other_steps(before, after) and rates[0] and rates[1]:
        yield contrasts.timed(f"{name}, a sample", "step", 1 / rates[0], 1 / rates[1], gain)
        yield from contrasts.plain(f"{name}, a step", "step", "seconds", ours, theirs)
    elif ours is not None and theirs is not None:
        yield contrasts.timed(name, "step", ours, theirs, gain)
    else:
        yield from contrasts.plain(name, "step", "seconds", ours, theirs)


def guard(before: Tuning, after: Tuning) -> Guard | None:
    """Whether the command as it is still learns the same, as a tuning asks it of a recipe."""
    ours, theirs = _through(before.baseline_runs), _through(after.baseline_runs)
    if not any(run.losses for run in ours) or not any(run.losses for run in theirs):
        return None
    return guarding.check(
        [run.losses for run in ours if not run.seed],
        [run.losses for run in theirs if not run.seed],
        [run.losses for run in ours if run.seed],
    )


def _other_steps(before: Sequence[Run], after: Sequence[Run]) -> bool:
    """Whether a step of one has other samples than one of the other: a recipe may change that."""
    counts = [(rows.step(runs) or 0.0) * (rows.rate(runs) or 0.0) for runs in (before, after)]
    return bool(min(counts)) and profiles.differ(*counts)


# Words ---------------------------------------------------------------------------------------


def summary(before: Tuning, after: Tuning) -> str:
    loud = busy(before, after)
    why = profiles.was_busy(loud) if loud else ""
    ours, theirs = before.baseline_runs, after.baseline_runs
    said = [_told("As it is", ours, theirs, as_is(before, after), why)]
    if before.winner is None and after.winner is None:
        said.append("Neither found a recipe that pays.")
    elif before.winner is None or after.winner is None:
        one = "second" if before.winner is None else "first"
        said.append(f"Only the {one} found a recipe that pays.")
    if before.winner is not None or after.winner is not None:
        best = _best(before), _best(after)
        said.append(_told("With what they found", *best, tuned(before, after), why))
    if "memory" in (before.goal, after.goal) and _same_memory(before, after):
        peaks = [units.size(rows.peak(_best(one))) for one in (before, after)]
        said.append(f"The memory at the peak is {peaks[1]} with that; it was {peaks[0]}.")
    return " ".join(said)


def _told(
    opening: str, before: Sequence[Run], after: Sequence[Run], gain: Speedup | None, why: str
) -> str:
    if _other_steps(before, after):
        ours, theirs = (units.rate(rows.rate(runs)) for runs in (before, after))
        told = profiles.told(gain, ours, theirs, of="", why=why)
    else:
        ours, theirs = (units.seconds(rows.step(runs)) for runs in (before, after))
        told = profiles.told(gain, ours, theirs, why=why)
    return f"{opening}: {told[0].lower()}{told[1:]}"


def recipes(before: Tuning, after: Tuning) -> Iterator[Change]:
    """What one recipe has and the other has not, or has with other settings."""
    ours, theirs = _recipe(before), _recipe(after)
    for name in dict.fromkeys([*ours, *theirs]):
        if ours.get(name) != theirs.get(name):
            yield Change(
                name=f"recipe: {name}",
                before=_settings(ours.get(name)),
                after=_settings(theirs.get(name)),
            )


def _recipe(tuning: Tuning) -> dict[str, dict[str, Any]]:
    return dict(Recipe(tuning.winner.recipe).changes) if tuning.winner is not None else {}


def _settings(found: dict[str, Any] | None) -> str:
    return wording.NOTHING if found is None else wording.settings(found) or "yes"


def notes(before: Tuning, after: Tuning) -> Iterator[str]:
    if before.goal != after.goal:
        yield f"The first was tuned for {before.goal}, the second for {after.goal}."
    if which := busy(before, after):
        yield profiles.busy_note(which)
    for name, one in (("first", before), ("second", after)):
        if not one.complete:
            yield f"The {name} was stopped early."
