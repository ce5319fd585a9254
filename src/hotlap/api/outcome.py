"""The outcome of a tuning in a sentence, from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hotlap import units
from hotlap.recipes import Recipe
from hotlap.search.judging import ONLY_FILLED
from hotlap.search.tuner import Found
from hotlap.tunings import (
    CHANGED,
    FAILED,
    NOT_APPLICABLE,
    OUT_OF_MEMORY,
    SKIPPED,
    UNPROVEN,
    Noise,
    Trial,
    Winner,
)

MORE_BUDGET = "Allow more with --budget."


def sentence(
    found: Found, noise: Noise, goal: str, *, interrupted: bool = False, meanwhile: str = ""
) -> str:
    """`meanwhile` says what else the machine did."""
    if found.winner is not None:
        return _won(found.winner, goal) + _reservations(found.winner, goal, meanwhile)
    planned = sum(trial.reason.startswith("would be tried") for trial in found.trials)
    if planned:
        return f"A dry run: {units.plural(planned, 'candidate')} would be tried."
    tried = [trial for trial in found.trials if trial.runs]
    if interrupted:
        return _so_far(tried)
    if not any(trial.speedup for trial in tried):
        return _nothing(found.trials, tried)
    if goal == "memory":
        return (
            f"Nothing of what was tried ({_recipes(tried)}) is proven to need less memory."
            f"{_unfinished(tried)}"
        )
    return _looked(tried, noise, spent=found.spent) or (
        f"Nothing of what was tried ({_recipes(tried)}) is faster beyond the noise of this "
        f"machine ({units.share(noise.spread)} from run to run).{_unfinished(tried)}"
    )


def _won(winner: Winner, goal: str) -> str:
    names = " + ".join(winner.recipe)
    if goal == "memory" and winner.peak_bytes and winner.baseline_peak_bytes:
        saved = 1 - winner.peak_bytes / winner.baseline_peak_bytes
        return (
            f"{units.share(saved)} less memory at the peak, at {winner.speedup.ratio:.2f} times "
            f"the speed, with {names}."
        )
    speedup = winner.speedup
    factor = winner.recipe.get("batch-size", {}).get("factor")
    larger = f" for {factor} times the samples" if factor else ""
    later = ", from the second epoch on" if Recipe(winner.recipe).fills else ""
    return (
        f"{speedup.ratio:.2f} times as fast ({speedup.low:.2f} to {speedup.high:.2f}) "
        f"with {names}: {units.seconds(winner.baseline_seconds)} a step become "
        f"{units.seconds(winner.step_seconds)}{larger}{later}."
    )


def _reservations(winner: Winner, goal: str, meanwhile: str) -> str:
    """What a reader of the figure has to know."""
    alone = [part.name for part in winner.parts if part.speedup is None]
    said = f" Measured while {meanwhile}." if meanwhile else ""
    if goal == "speed" and len(winner.parts) > 1 and alone:
        said += (
            f" Whether it takes {units.listed(alone)} was not tried: the budget was too short to "
            "leave each change out."
        )
    return said


def _so_far(tried: Sequence[Trial]) -> str:
    kept = [trial for trial in tried if trial.kept and trial.overall]
    if kept and kept[-1].overall:
        names = " + ".join(kept[-1].recipe)
        return (
            f"So far {kept[-1].overall.ratio:.2f} times as fast with {names}; the last runs that "
            "would prove it were not made."
        )
    if not tried:
        return "Stopped before any recipe was tried."
    return f"So far nothing is faster ({_recipes(tried)} tried)."


def _nothing(trials: Sequence[Trial], tried: Sequence[Trial]) -> str:
    """No recipe could be timed: none ran, or none came to its end."""
    if tried:
        outcomes = Counter(trial.status for trial in _one_of_each(tried))
        told = ", ".join(f"{count} {status}" for status, count in outcomes.items())
        more = f" {MORE_BUDGET}" if any(trial.reason == ONLY_FILLED for trial in tried) else ""
        return f"{_recipes(tried)} tried, and none could be measured: {told}.{more}"
    if any(trial.status == SKIPPED and "budget" in trial.reason for trial in trials):
        return (
            "Nothing was tried: running the command as it is took nearly all of the budget. "
            f"{MORE_BUDGET}"
        )
    return "Nothing was tried: nothing that may be tried applies to this command."


def _looked(tried: Sequence[Trial], noise: Noise, *, spent: bool) -> str | None:
    """What seemed faster and is not the winner, with the reason."""
    kept = [trial.speedup.ratio for trial in tried if trial.kept and trial.speedup]
    recipes = [trial.recipe for trial in tried if trial.kept]
    died = [one for one in tried if one.status in (FAILED, OUT_OF_MEMORY) and one.recipe in recipes]
    if kept and died:
        return (
            f"Something looked {kept[-1]:.2f} times as fast, but a later run of it {_end(died[0])}"
        )
    if kept:
        return (
            f"Something looked {kept[0]:.2f} times as fast, but the runs after it scatter by "
            f"{units.share(noise.spread)}: not proven. Tune again when the machine is quiet."
        )
    for status, but in (
        (UNPROVEN, "that is not proven: {}"),
        (CHANGED, "it changed the loss and is refused ({})"),
    ):
        faster = [
            (trial.speedup.ratio, trial)
            for trial in tried
            if trial.status == status and trial.speedup and trial.speedup.low > 1.0
        ]
        if faster:
            ratio, trial = max(faster, key=lambda pair: pair[0])
            reason = but.format(trial.reason)
            advice = _advice(spent) if "too few to be sure" in trial.reason else ""
            return f"{trial.name} looked {ratio:.2f} times as fast, but {reason}.{advice}"
    return None


def _end(trial: Trial) -> str:
    return f"{'failed' if trial.status == FAILED else 'ran out of memory'}: {trial.reason}."


def _advice(spent: bool) -> str:
    """More budget only where there was too little: else all the runs it may have were made."""
    return f" Tune again {'with more --budget' if spent else 'when the machine is quiet'}."


def _unfinished(tried: Sequence[Trial]) -> str:
    """What was run, and not so that anything can be said of it."""
    names = ", ".join(trial.name for trial in tried if trial.reason == ONLY_FILLED)
    return f" The budget was too short to time {names}. {MORE_BUDGET}" if names else ""


def _recipes(tried: Sequence[Trial]) -> str:
    return units.plural(len(_one_of_each(tried)), "recipe")


def _one_of_each(tried: Sequence[Trial]) -> list[Trial]:
    """The last row of each recipe; a part that was refused in a run of a recipe is none."""
    recipes = {Recipe(row.recipe).key: row for row in tried if row.status != NOT_APPLICABLE}
    folders = {run.folder for row in tried for run in row.runs if row.status != NOT_APPLICABLE}
    refused = {row.runs[-1].folder: row for row in tried if row.status == NOT_APPLICABLE}
    alone = [row for folder, row in refused.items() if folder not in folders]
    return [*recipes.values(), *alone]
