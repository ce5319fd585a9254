"""What a recipe's runs say about it: faster, slower, smaller, changed the loss, unproven."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from hotlap import optimizations, units
from hotlap.recipes import Recipe
from hotlap.search import comparing, guarding, rows
from hotlap.search.book import Book, Request
from hotlap.tunings import (
    CHANGED,
    FAILED,
    FASTER,
    NOT_APPLICABLE,
    OUT_OF_MEMORY,
    SAME,
    SLOWER,
    SMALLER,
    UNPROVEN,
    Guard,
    Run,
    Speedup,
    Trial,
)

BETTER = (FASTER, SMALLER)
WORTH_MORE_RUNS = 1.01
MOST_RUNS = 4
MOST_WHEN_AGAIN = 8
WORTH_ANOTHER_LOOK = 1.05
SMALLER_BY = 1.02
SLOWEST_FOR_MEMORY = 1.5
WORTH_KEEPING = 1.02  # a change that is not proven and contributes less is left out
COSTLY = ("compile",)  # at every start
WORTH_ITS_COST = 1.1
ONLY_FILLED = (
    "the budget ended before a run could be made that finds its cache filled; "
    "allow more with --budget"
)


def judge(
    book: Book, recipe: Recipe, reference: Recipe, guard: Guard, request: Request
) -> tuple[str, str]:
    """(status, reason) of a recipe against what it was compared with."""
    if guard.status == guarding.CHANGED:
        return CHANGED, guard.reason
    if not comparing.after_filling(book.runs(recipe)):
        return UNPROVEN, ONLY_FILLED
    by = _by_memory if request.choice.goal == "memory" else _by_time
    status, reason = by(book, recipe, reference, request)
    if status in BETTER and not _trusted(recipe, reference, guard):
        return UNPROVEN, guard.reason
    return status, reason


def _trusted(recipe: Recipe, reference: Recipe, guard: Guard) -> bool:
    """Same arithmetic needs no proof; anything else needs a guard that could tell."""
    if guard.status == guarding.PASSED:
        return True
    added = [name for name in recipe.changes if name not in reference.changes]
    return all(optimizations.named(name).NUMERICS == "identical" for name in added)


def contributes(name: str, gain: Speedup) -> bool:
    """Proven; or likely, and free. What costs has to be likely by far, and large.

    It need not be proven: where a noisy machine and a short budget leave room for two runs, a part
    that seems to double the speed would be dropped for want of a third.
    """
    if gain.low > 1.0:
        return True
    if name not in COSTLY:
        return gain.ratio >= WORTH_KEEPING
    by_far = math.log(gain.ratio) > math.log(gain.high / gain.ratio) / 2
    return by_far and gain.ratio >= WORTH_ITS_COST


def died(runs: Sequence[Run]) -> Run | None:
    """A run that did not go well; one that the end of the budget cut short is none."""
    return next((run for run in runs if run.status in (FAILED, OUT_OF_MEMORY)), None)


def _by_time(book: Book, recipe: Recipe, reference: Recipe, request: Request) -> tuple[str, str]:
    """With --steps-planned the start counts as well: compiling has to pay."""
    if not book.proves(reference, recipe):
        ratio, few = book.speedup(reference, recipe), _few(book, recipe)
        if ratio is None:
            return UNPROVEN, "it ended before its steps could be timed as those of the other were"
        if ratio.low > 1.0:
            return UNPROVEN, f"seems faster, but {few} too few to be sure on a machine this noisy"
        if ratio.is_vague:
            return UNPROVEN, f"{few} too few to tell anything on a machine this noisy"
        return (SLOWER if ratio.high < 1.0 else SAME), ""
    planned = request.steps_planned
    later = "from the second epoch on" if recipe.fills and not reference.fills else ""
    if planned is None:
        return FASTER, later
    ours, theirs = (
        rows.total_seconds(book.runs(one), planned, book.cold(one)) for one in (recipe, reference)
    )
    if ours is None or theirs is None or ours < theirs:
        return FASTER, later
    return SAME, f"faster steps, but its start does not pay within {planned:,} steps"


def _by_memory(book: Book, recipe: Recipe, reference: Recipe, request: Request) -> tuple[str, str]:
    less = book.shrinkage(reference, recipe)
    if less is None:
        return SAME, "peak memory was not seen"
    if less.ratio < SMALLER_BY:
        return SAME, ""
    if too_slow(book, recipe, reference):
        return SLOWER, f"saves memory, but is more than {SLOWEST_FOR_MEMORY:g} times slower"
    if book.proves_smaller(reference, recipe):
        return SMALLER, ""
    scatter = f"peaks scatter by {units.share(book.spread_of_peaks().deviation)} from run to run"
    if less.low > 1.0:
        return (
            UNPROVEN,
            f"seems smaller, but {_few(book, recipe)} too few to be sure where {scatter}",
        )
    return SAME, scatter


def too_slow(book: Book, recipe: Recipe, reference: Recipe) -> bool:
    """Whatever memory it saves."""
    speedup = book.speedup(reference, recipe)
    return speedup is not None and speedup.ratio < 1 / SLOWEST_FOR_MEMORY


def is_hopeless(
    book: Book,
    recipe: Recipe,
    reference: Recipe,
    goal: str,
    *,
    promise: float | None = None,
    since: tuple[int, int] | None = None,
) -> bool:
    """If it is better at all, then by too little to show: more runs are for others.

    What is looked at again was chosen for how well it did against how badly the reference did. The
    runs of both since then were not chosen, and have to show it too.
    """
    if goal == "memory":
        less = book.shrinkage(reference, recipe)
        small = less is None or less.ratio < SMALLER_BY
        return small or too_slow(book, recipe, reference)
    ratio = book.speedup(reference, recipe)
    if ratio is None or ratio.ratio < (WORTH_ANOTHER_LOOK if since else WORTH_MORE_RUNS):
        return True
    fresh = book.speedup(reference, recipe, since=since) if since else None
    if fresh is not None and fresh.ratio < WORTH_KEEPING:
        return True
    most, first = most_runs(since), since is None
    return not book.may_prove(reference, recipe, most=most, promise=promise, hopefully=first)


def most_runs(since: tuple[int, int] | None) -> int:
    """Of one recipe, to decide about it."""
    return MOST_RUNS if since is None else MOST_WHEN_AGAIN


def most_promising(
    book: Book, best: Recipe, trials: Sequence[Trial], without: Collection[str]
) -> Trial | None:
    """Of what was tried, what seems better than the best by most, and could still be proven."""
    seeming: dict[float, Trial] = {}
    for trial in trials:
        recipe = Recipe(trial.recipe)
        tried = trial.runs and trial.status != NOT_APPLICABLE
        ratio = book.speedup(best, recipe) if tried and recipe.key not in without else None
        if ratio is None:
            continue
        guard = book.guard(recipe, best)
        if guard.status == guarding.CHANGED or not _trusted(recipe, best, guard):
            continue
        since = (len(book.runs(best)), len(book.runs(recipe)))
        if not is_hopeless(book, recipe, best, "speed", since=since):
            seeming[ratio.ratio] = trial
    return seeming[max(seeming)] if seeming else None


def is_proven(book: Book, recipe: Recipe, reference: Recipe, goal: str) -> bool:
    proves = book.proves_smaller if goal == "memory" else book.proves
    return proves(reference, recipe)


def _few(book: Book, recipe: Recipe) -> str:
    runs = len(comparing.after_filling(book.runs(recipe)))
    return "one run is" if runs == 1 else f"{runs} runs are"
