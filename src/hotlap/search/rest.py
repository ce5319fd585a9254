"""Rows for what was not tried, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hotlap.search.planning import Candidate
from hotlap.tunings import SKIPPED, Trial

SPENT = "the budget is spent; allow more with --budget"


def skipped(candidates: Iterable[Candidate]) -> Iterator[Trial]:
    for candidate in candidates:
        yield Trial(name=candidate.label, recipe={}, status=SKIPPED, reason=SPENT)


def refused(rows: Iterable[Trial], trials: Sequence[Trial]) -> Iterator[Trial]:
    """What came to apply later on has a row of its own by now."""
    tried = {trial.name.split()[0] for trial in trials}
    tried |= {name for trial in trials for name in trial.recipe}
    yield from (row for row in rows if row.name not in tried)
