"""Rows for what was not tried, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hotlap import optimizations
from hotlap.recipes import Recipe
from hotlap.records import Record
from hotlap.search.planning import Candidate
from hotlap.tunings import NOT_APPLICABLE, SKIPPED, Trial

SPENT = "too little of the budget was left; allow more with --budget"
TOO_LATE = "came to apply with what was found, too late to be tried"


def skipped(candidates: Iterable[Candidate]) -> Iterator[Trial]:
    for candidate in candidates:
        yield Trial(name=candidate.label, recipe={}, status=SKIPPED, reason=SPENT)


def refused(rows: Iterable[Trial], trials: Sequence[Trial]) -> Iterator[Trial]:
    """What came to apply later on has a row of its own by now."""
    tried = {trial.name.split()[0] for trial in trials}
    tried |= {name for trial in trials for name in trial.recipe}
    yield from (row for row in rows if row.name not in tried)


def under(recipe: Recipe, record: Record, rows: Iterable[Trial], *, spent: bool) -> Iterator[Trial]:
    """The same rows, as true of the script with this recipe as they were of the script alone."""
    for row in rows:
        if row.status != NOT_APPLICABLE or not recipe:
            yield row
            continue
        why = optimizations.named(row.name).refusal(_with_workers(recipe, record))
        if why is not None:
            yield msgspec.structs.replace(row, reason=why)
        else:
            yield Trial(
                name=row.name, recipe={}, status=SKIPPED, reason=SPENT if spent else TOO_LATE
            )


def _with_workers(recipe: Recipe, record: Record) -> Record:
    """Whether a loader has workers is asked by several; a new diagnosis may not have been made."""
    workers = recipe.changes.get("loader-workers", {}).get("workers")
    if workers is None:
        return record
    loaders = tuple(msgspec.structs.replace(one, workers=workers) for one in record.loaders)
    return msgspec.structs.replace(record, loaders=loaders)
