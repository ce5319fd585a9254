"""Other processes on the machine: which runs they disturbed, and which of those are run again.

A run counts as disturbed where others burned clearly more than during the quietest one, as in a
tuning (search/book.py). What cannot be run again counts for less, see estimates.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hotlap import answers, stats, units
from hotlap.answers import Done
from hotlap.search.book import MOST_REPEATS, OTHERS_DISTURB_FROM
from hotlap.studies.study import number_of

REPEATS_SHARE = 1 / 3  # of the time that all cells took: so much at most is spent on repeating


def by_others(one: Done) -> float | None:
    """Cores that others burned during it."""
    usage = one.figures.get("usage")
    if isinstance(usage, dict):
        return number_of(usage, "other_cores")
    seen = [number_of(each, "other_cores") for each in one.figures.get("telemetry") or ()]
    known = [value for value in seen if value is not None]
    return stats.mean(known) if known else None


def marked(done: Sequence[Done], cores: float) -> list[Done]:
    """All of them, with what is known by now of who was disturbed."""
    seen = [taken for one in done if (taken := by_others(one)) is not None]
    most = min(seen, default=0.0) + OTHERS_DISTURB_FROM * cores
    return [msgspec.structs.replace(one, disturbed=(by_others(one) or 0.0) > most) for one in done]


def worst(done: Sequence[Done], aside: Sequence[Done]) -> int | None:
    """The place of the cell that is to be run again next: each once, while there is time for it."""
    if len(aside) >= MOST_REPEATS:
        return None
    spent = sum(one.seconds for one in aside)
    most = REPEATS_SHARE * sum(one.seconds for one in done)
    repeated = [one.cell for one in aside]
    may = [
        at
        for at, one in enumerate(done)
        if one.good and one.disturbed and one.cell not in repeated and spent + one.seconds <= most
    ]
    return max(may, key=lambda at: by_others(done[at]) or 0.0, default=None)


def sorted_out(first: Done, second: Done, cores: float) -> tuple[Done, Done]:
    """Of two runs of one cell the one that counts, and the other, set aside with its reason."""
    better = second.good and (by_others(second) or 0.0) < (by_others(first) or 0.0)
    kept, other = (second, first) if better else (first, second)
    why = _burned(other, cores) if other.good else f"{other.status}: {other.reason}"
    return kept, msgspec.structs.replace(other, status=answers.SET_ASIDE, reason=why)


def _burned(one: Done, cores: float) -> str:
    return f"other processes burned {by_others(one) or 0.0:.1f} of {_cores(cores)}"


def _cores(cores: float) -> str:
    return f"{cores:g} {'core' if cores == 1 else 'cores'}"


def told(done: Sequence[Done], cores: float) -> str:
    """A sentence where runs were repeated, and one where the machine was busy all the same."""
    repeated = sum(one.status == answers.SET_ASIDE for one in done)
    said = ""
    if repeated:
        said = f" {units.plural(repeated, 'run')} that other processes disturbed "
        said += f"{'was' if repeated == 1 else 'were'} repeated."
    return said + busy([one for one in done if one.status != answers.SET_ASIDE], cores)


def busy(done: Sequence[Done], cores: float) -> str:
    """A sentence where others took a good part of the machine; empty where they did not."""
    others = [taken for one in done if (taken := by_others(one)) is not None]
    disturbed = [taken for taken in others if taken > max(0.5, cores / 3)]
    if not disturbed:
        return ""
    runs = f"{len(disturbed)} of {units.plural(len(others), 'run')}"
    return (
        f" The machine was busy: during {runs} other processes burned up to {max(disturbed):.1f} of"
        f" {_cores(cores)}, so some times are too long, and the intervals may not cover it."
    )
