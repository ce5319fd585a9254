"""What runs come to: a row of the table; the winner, and what each of its parts contributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotlap import optimizations
from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import guarding, judging, rows
from hotlap.search.book import BASELINE, Book, Request
from hotlap.tunings import Guard, Part, Speedup, Trial, Winner

AGAIN = "the best, again"


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
    if not best or ratio is None or step is None or before is None:
        return None
    if not stands(book, best, goal):
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


def stands(book: Book, recipe: Recipe, goal: str) -> bool:
    """Whether all its runs together bear it out."""
    if judging.died(book.runs(recipe)) or book.guard(recipe).status == guarding.CHANGED:
        return False
    return judging.is_proven(book, recipe, BASELINE, goal)


def fallback(book: Book, bests: Sequence[Recipe], request: Request) -> tuple[Trial | None, Recipe]:
    """From a best that its last runs do not bear out: its row, and the one to go back to.

    Not where it changed the loss: what did may be in the others as well.
    """
    best = bests[-1] if bests else BASELINE
    proven = [one for one in bests if stands(book, one, request.choice.goal)]
    guard = book.guard(best)
    if not proven or best in proven or guard.status == guarding.CHANGED:
        return None, best
    status, reason = judging.judge(book, best, BASELINE, guard, request)
    return compared(book, AGAIN, best, status, reason, BASELINE, guard, kept=False), proven[-1]


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
        notes.append("its own share was not measured")
    elif gain.high < 1.0:  # what saves memory may cost time
        notes.append("slower with it")
    elif gain.is_vague:
        notes.append("too noisy to tell")
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
