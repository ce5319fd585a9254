"""What runs come to: a row of the table; the winner, and what each of its parts contributes."""

from __future__ import annotations

from collections.abc import Mapping

from hotlap import optimizations
from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import guarding, judging, rows
from hotlap.search.book import BASELINE, Book
from hotlap.tunings import Guard, Part, Speedup, Trial, Winner


def winner(
    book: Book,
    best: Recipe,
    gains: Mapping[str, Speedup],
    *,
    goal: str,
    profile: Profile | None = None,
) -> Winner | None:
    """None where nothing was better, or its last runs do not bear it out: failed, or scatter.

    `gains` are contributions as they were measured on the way, for parts that were not left out
    of the very last recipe.
    """
    baseline, runs = book.runs(BASELINE), book.runs(best)
    ratio, guard = book.speedup(BASELINE, best), book.guard(best)
    before, step = map(rows.mean_step, book.compared(BASELINE, best))
    if not best or ratio is None or step is None or before is None or judging.died(runs):
        return None
    if guard.status == guarding.CHANGED or not judging.is_proven(book, best, BASELINE, goal):
        return None
    cold = book.cold(best)
    return Winner(
        recipe=dict(best.changes),
        speedup=ratio,
        guard=guard,
        parts=tuple(_part(book, best, name, gains.get(name)) for name in best.changes),
        step_seconds=step,
        baseline_seconds=before,
        samples_per_second=rows.rate(runs),
        peak_bytes=rows.peak(runs),
        baseline_peak_bytes=rows.peak(baseline),
        start_seconds=rows.more_start(runs, baseline, cold),
        break_even_steps=rows.break_even(runs, baseline, cold),
        profile=profile,
        runs=tuple(runs),
    )


def compared(
    book: Book,
    name: str,
    recipe: Recipe,
    status: str,
    reason: str,
    reference: Recipe,
    guard: Guard,
    *,
    kept: bool,
) -> Trial:
    """The row of a recipe that has been run often enough."""
    return rows.compared(
        name,
        recipe,
        status,
        reason,
        book.runs(recipe),
        against=reference.label(),
        speedup=book.speedup(reference, recipe),
        overall=book.speedup(BASELINE, recipe),
        guard=guard,
        baseline=book.runs(BASELINE),
        cold=book.cold(recipe),
        kept=kept,
    )


def _part(book: Book, best: Recipe, name: str, known: Speedup | None) -> Part:
    one = optimizations.named(name)
    settings = dict(best.changes[name])
    rest = book.at_work(best.without(name))
    gain = book.speedup(rest, best) or known
    more = set(best.changes) - set(rest.changes) - {name}
    notes = [f"together with {', '.join(sorted(more))}"] if more else []
    if gain is None:
        notes.append("not measured by itself")
    elif not gain.low > 1.0:
        notes.append("within the noise")
    return Part(
        name=name,
        settings=settings,
        numerics=one.NUMERICS,
        by_hand=one.by_hand(settings),
        speedup=gain,
        note=", ".join(notes),
    )
