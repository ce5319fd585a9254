"""Two studies of one name: row by row, what differs by more than its intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hotlap import units
from hotlap.answers import Answer, Column, Row
from hotlap.comparisons import DIFFERENT, SAME, Figure
from hotlap.differences import contrasts, profiles
from hotlap.reports import study, wording
from hotlap.reports.wording import finite
from hotlap.studies.disturbances import crowded_rows

OF_TIME = ("seconds", "rate", "ratio", "share")  # units of columns that a busy machine spoils


def crowded(answer: Answer) -> set[str]:
    """Rows whose runs all took place on a busy machine."""
    return crowded_rows(answer.cells, float(answer.machine.get("cores") or 1))


def figures(before: Answer, after: Answer) -> Iterator[Figure]:
    """Each value that both have, column by column; rows that only one has are told in the notes.

    What a row took on a busy machine is not judged: another day it would be something else.
    """
    known = {column.name for column in before.columns}
    ours = {row.name: row for row in before.rows if row.good}
    busy = crowded(before) | crowded(after)
    for column in after.columns:
        if column.name in known:
            for row in after.rows:
                if row.good and row.name in ours:
                    plainly = row.name in busy and column.unit in OF_TIME
                    yield from _figure(column, ours[row.name], row, plainly=plainly)


def _figure(column: Column, before: Row, after: Row, *, plainly: bool) -> Iterator[Figure]:
    ours, theirs = (finite(row.number(column.name)) for row in (before, after))
    first, second = _ends(before, column), _ends(after, column)
    about = (after.name, column.title, column.unit)
    if plainly or ours is None or theirs is None or first is None or second is None:
        yield from contrasts.plain(*about, ours, theirs)
    else:
        yield contrasts.between(*about, (ours, theirs), (first, second))


def _ends(row: Row, column: Column) -> tuple[float, float] | None:
    found = row.intervals.get(column.name)
    return found if found is not None and all(finite(end) is not None for end in found) else None


def column(after: Answer, found: Sequence[Figure]) -> str:
    """The answer of the study: the first column with an interval that rows of both have.

    A gain over another row only where there is nothing else: it falls where that row gets faster.
    Where nothing can be judged, the column that would be if it could.
    """
    intervals = {one.title for one in after.columns if one.interval}
    groups = {one.group for one in found if one.outcome}
    groups = groups or {one.group for one in found if one.group in intervals}
    shown = [one for one in after.columns if one.title in groups]
    order = sorted(shown, key=lambda one: (one.unit == "ratio", not one.interval))
    return order[0].title if order else ""


def summary(before: Answer, after: Answer, found: Sequence[Figure]) -> str:
    main, busy = column(after, found), crowded(before) | crowded(after)
    rows = [one for one in found if one.group == main]
    if rows and busy >= {one.name for one in rows} and not any(one.outcome for one in rows):
        which = profiles.was_busy(busy_ones(before, after))
        return f"Whether any row differs cannot be told: {which}."
    said = [_counted(main, found)]
    ours, theirs = before.best, after.best
    if ours is not None and theirs is not None:
        same = ours.name == theirs.name
        said.append(
            f"The best row is '{theirs.name}', as before."
            if same
            else f"The best row is '{theirs.name}'; it was '{ours.name}'."
        )
    return " ".join(filter(None, said))


def _counted(main: str, found: Sequence[Figure]) -> str:
    if not any(one.outcome for one in found if one.group == main):
        return "No row that both have has an interval: nothing can be told apart from noise."
    rows = [one for one in found if one.group == main and one.outcome]
    apart = [one for one in rows if one.outcome != SAME]
    if not apart:
        every = "the one row" if len(rows) == 1 else f"any of the {len(rows)} rows"
        return f"No difference beyond the noise in {every} that both have ('{main}')."
    most = units.listed([_told(one) for one in apart]) if len(apart) <= 3 else ""
    return f"{_how_many(len(apart), len(rows))} in '{main}': {most or _ways(apart)}."


def _how_many(apart: int, rows: int) -> str:
    if apart == rows:
        every = {1: "The one row that both have differs", 2: "Both rows differ"}
        return every.get(rows, f"All {rows} rows differ")
    return f"{apart} of {rows} rows {'differs' if apart == 1 else 'differ'}"


def _told(one: Figure) -> str:
    """'cifar, disk' is faster (433 ms, was 511 ms)."""
    say = study.UNITS.get(one.unit, wording.count)
    return f"'{one.name}' is {one.outcome} ({say(one.after)}, was {say(one.before)})"


def _ways(apart: Sequence[Figure]) -> str:
    """4 are faster and 1 is slower."""
    outcomes = list(dict.fromkeys(one.outcome for one in apart))
    counts = [(word, sum(one.outcome == word for one in apart)) for word in outcomes]
    return units.listed([f"{n} {'is' if n == 1 else 'are'} {word}" for word, n in counts])


def outcome(after: Answer, found: Sequence[Figure]) -> str:
    main = column(after, found)
    words = {one.outcome for one in found if one.group == main} - {""}
    return "" if not words else words.pop() if len(words) == 1 else DIFFERENT


def busy_ones(before: Answer, after: Answer) -> list[str]:
    """Which of them has rows that were measured on a busy machine alone."""
    return [name for name, one in (("first", before), ("second", after)) if crowded(one)]


def notes(before: Answer, after: Answer) -> Iterator[str]:
    if loud := busy_ones(before, after):
        yield profiles.busy_note(loud)
        busy, good = crowded(before) | crowded(after), [row for row in after.rows if row.good]
        names = [f"'{row.name}'" for row in good if row.name in busy]
        if names and len(names) < len(good):
            yield f"Not judged, for that reason: the times of {units.listed(names)}."
    ours, theirs = ({row.name: row for row in one.rows} for one in (before, after))
    for which, known, others in (("first", ours, theirs), ("second", theirs, ours)):
        only = [f"'{name}'" for name in known if name not in others]
        if only:
            yield f"Only the {which} has {units.listed(only)}."
    for name, row in theirs.items():
        if name in ours and row.status != ours[name].status:
            yield f"'{name}' was {ours[name].status} before and is {row.status} now."
    for which, one in (("first", before), ("second", after)):
        if not one.complete:
            yield f"The {which} was stopped early."
