"""Other processes on the machine: which runs they disturbed, and which of those are run again.

A run counts as disturbed where others burned clearly more than during the quietest one, as in a
tuning (search/book.py), and where they burned so much that a profile would call the machine busy:
then the quietest one may not have been quiet either. What cannot be run again counts for less, see
estimates.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from hotlap import answers, stats, units
from hotlap.answers import Done
from hotlap.rules.busy_machine import crowded, takers
from hotlap.search.book import MOST_REPEATS, OTHERS_DISTURB_FROM
from hotlap.studies.study import number_of

REPEATS_SHARE = 1 / 3  # of the time that all cells took: so much at most is spent on repeating


def by_others(one: Done) -> float | None:
    """Cores that others burned during it."""
    return _mean(one, "other_cores")


def _mean(one: Done, name: str) -> float | None:
    usage = one.figures.get("usage")
    if isinstance(usage, dict):
        return number_of(usage, name)
    seen = [number_of(each, name) for each in one.figures.get("telemetry") or ()]
    known = [value for value in seen if value is not None]
    return stats.mean(known) if known else None


def marked(done: Sequence[Done], cores: float) -> list[Done]:
    """All of them, with what is known by now of who was disturbed."""
    seen = [taken for one in done if (taken := by_others(one)) is not None]
    most = min(seen, default=0.0) + OTHERS_DISTURB_FROM * cores
    return [_marked(one, most, cores) for one in done]


def _marked(one: Done, most: float, cores: float) -> Done:
    taken = by_others(one)
    busy = crowded(taken, cores)
    return msgspec.structs.replace(one, busy=busy, disturbed=busy or (taken or 0.0) > most)


def crowded_rows(done: Iterable[Done], cores: float) -> set[str]:
    """Rows whose runs all took place on a busy machine: their times say little."""
    counted = [one for one in done if one.good]
    quiet = {one.cell.row for one in counted if not crowded(by_others(one), cores)}
    return {one.cell.row for one in counted} - quiet


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
    return f"{_who([one], cores)} took {by_others(one) or 0.0:.1f} of {_cores(cores)}"


def _who(done: Sequence[Done], cores: float) -> str:
    """Other processes, the host of a virtual machine, or both."""
    found = [takers(by_others(one) or 0.0, _mean(one, "stolen_cores"), cores) for one in done]
    return units.listed(sorted({who for one in found for who in one}))


def _cores(cores: float) -> str:
    return f"{cores:g} {'core' if cores == 1 else 'cores'}"


def told(done: Sequence[Done], cores: float) -> str:
    """A sentence where runs were repeated, and one where the machine was busy all the same."""
    repeated = sum(one.status == answers.SET_ASIDE for one in done)
    said = ""
    if repeated:
        said = f" {units.plural(repeated, 'disturbed run')} {'was' if repeated == 1 else 'were'}"
        said += " repeated."
    return said + busy([one for one in done if one.status != answers.SET_ASIDE], cores)


def busy(done: Sequence[Done], cores: float) -> str:
    """A sentence where others took a good part of the machine; empty where they did not."""
    known = [one for one in done if by_others(one) is not None]
    disturbed = [one for one in known if crowded(by_others(one), cores)]
    if not disturbed:
        return ""
    runs = f"{len(disturbed)} of {units.plural(len(known), 'run')}"
    most = max(by_others(one) or 0.0 for one in disturbed)
    return (
        f" The machine was busy: during {runs} {_who(disturbed, cores)} took up to {most:.1f} of"
        f" {_cores(cores)}, so some times are too long{_how_much(done)}"
    )


def _how_much(done: Sequence[Done]) -> str:
    """Of a row that has one run, and that a busy one, nothing is known of the noise."""
    good = [one for one in done if one.good]
    runs = Counter((one.cell.row, type(one.cell)) for one in good)
    alone = [one for one in good if one.busy and runs[one.cell.row, type(one.cell)] == 1]
    if alone and len(alone) == len(good):
        return ", and what differs between single runs has no interval."
    said = ", by more than the intervals say."
    return f"{said} A single run beside that has no interval." if alone else said
