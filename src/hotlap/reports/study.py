"""A study in a terminal: the question, a table that grows row by row, then the reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from hotlap.answers import Answer, Column, Row
from hotlap.reports import wording
from hotlap.reports.wording import finite

UNITS: dict[str, Callable[[float | None], str]] = {
    "seconds": wording.seconds,
    "bytes": wording.size,
    "rate": lambda value: wording.rate(value, "").strip(),
    "share": wording.share,
    "accuracy": wording.accuracy,
    "decimal": wording.decimal,
    "ratio": wording.ratio,
    "number": wording.count,
}
# What a figure takes at most, and one with its interval: 73,212 (68,052 to 78,763).
WIDTHS = {
    **{"seconds": 9, "bytes": 9, "rate": 9, "share": 6, "ratio": 7, "number": 6},
    **{"accuracy": 7, "decimal": 6},
}
RANGES = {"seconds": 25, "rate": 25, "ratio": 25, "accuracy": 25, "share": 20}
INTERVAL = 20  # further signs of any other unit
NAME = 22  # signs of a row's name at most
BETWEEN = "  "  # columns: a title is often of several words


def shown(row: Row, column: Column) -> str:
    """A value in its unit, without the interval."""
    value = row.values.get(column.name)
    if isinstance(value, str):
        return value
    say = UNITS.get(column.unit, wording.count)
    return say(value)


def between(row: Row, column: Column) -> str:
    """1.21 s to 1.30 s; empty where there is no interval, or where it is no wider than a digit."""
    found = row.intervals.get(column.name)
    if found is None or any(finite(end) is None for end in found):
        return ""
    say = UNITS.get(column.unit, wording.count)
    low, high = (say(end) for end in found)
    return "" if low == high else f"{low} to {high}"


def intro(study: str, question: str, machine: str) -> RenderableType:
    title = Text("hotlap study  ", style="dim")
    title.append(study, style="default")
    title.append(f"   {machine}\n", style="dim")
    return Padding(Group(title, Text(question, style="bold")), (1, 1, 1, 2), expand=False)


def named(rows: Sequence[str]) -> int:
    """How wide the names of these rows are; a longer one than most is cut."""
    return min(NAME, max(map(len, rows), default=NAME))


def fitting(
    columns: Sequence[Column], width: int | None, *, name: int = NAME
) -> tuple[Column, ...]:
    """Those for which a terminal has room. First the spare ones go, then intervals but for the
    first one, then columns from the end but for those with an interval, the answers."""
    kept = {column.name: column for column in columns}
    for shorter in _shorter(columns):
        if width is None or len(header(list(kept.values()), name=name).plain) <= width:
            break
        kept = {
            name: msgspec.structs.replace(column, interval=False)
            if name == shorter.plain
            else column
            for name, column in kept.items()
            if name != shorter.gone
        }
    return tuple(kept.values())


class _Shorter(NamedTuple):
    gone: str | None = None
    plain: str | None = None  # it stays, without its interval


def _shorter(columns: Sequence[Column]) -> Iterator[_Shorter]:
    proven = [column.name for column in columns if column.interval]
    first = (proven or [columns[0].name])[0]
    others = [column for column in reversed(columns) if column.name != first]
    yield from (_Shorter(gone=column.name) for column in others if column.spare)
    yield from (_Shorter(plain=name) for name in reversed(proven[1:]))
    stay = {column.name for column in others if column.spare or column.interval}
    yield from (_Shorter(gone=column.name) for column in others if column.name not in stay)
    yield from (_Shorter(gone=name) for name in reversed(proven[1:]))
    yield _Shorter(plain=first)


def left_out(columns: Sequence[Column], kept: Sequence[Column]) -> RenderableType | None:
    """Where to read what a narrow terminal does not show."""
    names = {column.name for column in kept}
    gone = [column.title for column in columns if column.name not in names]
    if not gone:
        return None
    titles = ", ".join(f"'{title}'" for title in gone)
    told = Text(f"Columns left to the report, for lack of room: {titles}.", style="dim")
    return Padding(told, (0, 1, 0, 2), expand=False)


def header(columns: Sequence[Column], *, name: int = NAME) -> Text:
    words = [column.title.rjust(_width(column)) for column in columns]
    return Text(BETWEEN.join(["  " + "".ljust(name), *words]), style="dim")


def line(row: Row, columns: Sequence[Column], *, name: int = NAME) -> Text:
    """One row; its reason below it where there is one."""
    made = Text("  ")
    called = row.name if len(row.name) <= name else row.name[: name - 1] + "…"
    made.append(called.ljust(name))
    if not row.good:
        made.append(f"{BETWEEN}{row.status}", style="red")
        made.append(f"  {row.reason}" if row.reason else "")
        return made
    for column in columns:
        text, range_ = shown(row, column), between(row, column)
        if column.interval and range_:
            text += f" ({range_})"
        made.append(BETWEEN + text.rjust(_width(column)))
    if row.reason:
        made.append(f"\n    {row.reason}", style="dim")
    return made


def _width(column: Column) -> int:
    plain = WIDTHS.get(column.unit, 12)
    wide = RANGES.get(column.unit, plain + INTERVAL) if column.interval else plain
    return max(len(column.title), wide)


def outcome(answer: Answer) -> RenderableType:
    parts: list[RenderableType] = []
    if not answer.complete:
        parts.append(Text("The study was stopped early.", style="yellow"))
    parts.append(Text(answer.reading, style="bold"))
    return Padding(Group(*parts), (1, 1, 0, 2), expand=False)


def places(answer: Answer) -> list[Text]:
    """Where it is kept, to be printed in one piece each, however long: paths get copied."""
    files = [Path(answer.folder) / name for name in ("report.html", "study.md", "study.json")]
    return [Text(f"  {wording.short(file)}", style="dim") for file in files]
