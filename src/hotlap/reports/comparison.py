"""What differs between two results, as a person reads it: in a terminal, or as Markdown."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hotlap.comparisons import FASTER, GONE, NEW, SAME, SLOWER, Comparison, Figure, Seen
from hotlap.records import MEMORY_PARTS, PHASES
from hotlap.reports import study, terminal, wording
from hotlap.reports.wording import finite

TITLES = {
    "step": "",
    "phases": "where a step goes",
    "memory": "memory",
    "start": "start",
    "gain": "",
}
KINDS = {"profile": "two profiles", "tuning": "two tunings", "study": "two studies"}
COLUMNS = ("name", "before", "after", "change", "between", "outcome")
COLOURS = {FASTER: "green", SLOWER: "red"}
SIGNS = {NEW: ("+", "yellow"), GONE: ("−", "green")}
WORTH_TELLING = 0.005  # a smaller change is shown as none
WORDS = {SAME: "within the noise"}  # outcomes that are told in others
FILE_WIDTH = 120
TIMES_FROM = 3.0  # a larger ratio is told as such and not in per cent


@dataclass(frozen=True, kw_only=True)
class Line:
    """One figure in words."""

    group: str
    name: str
    before: str
    after: str
    change: str
    between: str  # the interval of the change
    outcome: str


def lines(comparison: Comparison) -> list[Line]:
    left = _unjudged(comparison)
    return [_line(one, unjudged=one.group in left) for one in comparison.figures]


def _unjudged(comparison: Comparison) -> set[str]:
    """Groups with the answer in them, of which nothing can be told, so that it is said there."""
    asked = {comparison.column} if comparison.kind == "study" else {"step"}
    return asked - {one.group for one in comparison.figures if one.outcome}


def _main_lines(comparison: Comparison) -> list[Line]:
    """Of a study the column that its summary tells of; of memory what it is and what differs."""
    found = comparison.figures
    if comparison.kind == "study":
        found = tuple(one for one in found if one.group == comparison.column)
    left = _unjudged(comparison)
    told = [one for one in found if one.group != "memory" or _is_told(one)]
    return [_line(one, unjudged=one.group in left) for one in told]


def _is_told(one: Figure) -> bool:
    before, after = finite(one.before), finite(one.after)
    if one.name not in MEMORY_PARTS or not before or after is None:
        return True
    return abs(after / before - 1) >= WORTH_TELLING


def _line(one: Figure, *, unjudged: bool) -> Line:
    say = study.UNITS.get(one.unit, wording.count)
    moved, between = change(one)
    return Line(
        group=one.group,
        name=one.name,
        before=say(one.before),
        after=say(one.after),
        change=moved,
        between=between,
        outcome=WORDS.get(one.outcome, one.outcome) or "not judged" * unjudged,
    )


def change(one: Figure) -> tuple[str, str]:
    """−46 % and (−50 to −41); in points where it is a share already."""
    before, after = finite(one.before), finite(one.after)
    if before is None or after is None:
        return "", ""
    if one.unit in ("share", "accuracy"):
        return f"{_signed(100 * (after - before), 1)} points", ""
    found = one.ratio
    if found is not None and found.ratio >= TIMES_FROM:
        return wording.ratio(found.ratio), f"({wording.interval(found)})"
    if found is not None:
        return f"{_percent(found.ratio)} %", f"({_percent(found.low)} to {_percent(found.high)})"
    if before <= 0:
        return "", ""
    ratio = after / before
    return f"{ratio:.1f}×" if ratio >= TIMES_FROM else f"{_percent(ratio)} %", ""


def _percent(ratio: float) -> str:
    shown = 0.0 if abs(ratio - 1) < WORTH_TELLING else 100 * (ratio - 1)
    return _signed(shown, 0)


def _signed(value: float, digits: int) -> str:
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return f"±{text}"
    return f"{'−' if value < 0 else '+'}{text}"


# In a terminal -------------------------------------------------------------------------------


def render(comparison: Comparison) -> RenderableType:
    figures = _main_lines(comparison)
    parts = [
        _title(comparison),
        Text(comparison.summary + "\n", style="bold"),
        *_bars(comparison),
        *([Padding(Figures(figures), (0, 0, 1, 0))] if figures else []),
        *_changes(comparison),
        *_findings(comparison),
        *_learning(comparison),
        *_notes(comparison),
    ]
    return Padding(Group(*parts), (1, 1, 0, 2), expand=False)


def _title(comparison: Comparison) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(style="dim", overflow="fold")
    before, after = comparison.before, comparison.after
    for name, side in (("before", before), ("after", after)):
        grid.add_row(name, Text(side.source), Text(wording.when(side.created)))
    machines = dict.fromkeys((before.machine, after.machine))
    line = Text.assemble(("hotlap compare  ", "dim"), f"{KINDS[comparison.kind]}\n")
    on = Text("on      ", style="dim").append(" → ".join(machines))
    return Padding(Group(line, grid, on), (0, 0, 1, 0))


def _bars(comparison: Comparison) -> Iterator[RenderableType]:
    """Both steps as bars on one scale, phase by phase."""
    found = [one for one in comparison.figures if one.group == "phases"]
    whole = [sum(finite(value) or 0.0 for value in values) for values in _columns(found)]
    if comparison.kind != "profile" or min(whole, default=0.0) <= 0:
        return
    samples = comparison.figure("samples a step")
    if samples is not None:  # on the scale of a sample
        whole = [one / (n or 1) for one, n in zip(whole, _sides(samples), strict=True)]
    shares = {name: values for name, values in _by_name(found).items() if name in PHASES}
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(ratio=1)
    for at, label in enumerate(("before", "after")):
        parts = [
            (finite(values[at]) or 0.0, *terminal.PHASES[name]) for name, values in shares.items()
        ]
        grid.add_row(label, terminal.Bar(parts, length=whole[at] / max(whole)))
    yield Padding(grid, (0, 0, 1, 0))


def _columns(found: Sequence[Figure]) -> tuple[list[float | None], list[float | None]]:
    return [one.before for one in found], [one.after for one in found]


def _sides(one: Figure) -> tuple[float | None, float | None]:
    return one.before, one.after


def _by_name(found: Sequence[Figure]) -> dict[str, tuple[float | None, float | None]]:
    return {one.name: _sides(one) for one in found}


class Figures:
    """Groups below each other, under one head; in a narrow terminal without what is too wide."""

    def __init__(self, found: Sequence[Line]) -> None:
        self._found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(width=FILE_WIDTH)
        for left_out in ((), ("between",), ("between", "outcome")):
            names = [name for name in COLUMNS if name not in left_out]
            grid = _table(self._found, names)
            if Measurement.get(console, wide, grid).maximum <= options.max_width:
                break
        yield grid


def _table(found: Sequence[Line], names: Sequence[str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name in names:
        right = name in ("before", "after", "change")
        grid.add_column(
            justify="right" if right else "left",
            no_wrap=right,
            overflow="fold",
        )
    heads = ("", "before", "after", "change")
    grid.add_row(*(Text(word, style="dim") for word in heads))
    group = found[0].group if found else ""
    for one in found:
        if one.group != group:
            group = one.group
            title = TITLES.get(group, group)
            grid.add_row(Text(f"\n{title}" if title else "", style="dim"))
        grid.add_row(*(_cell(one, name) for name in names))
    return grid


def _cell(one: Line, column: str) -> Text:
    if column == "name" and one.group == "phases" and one.name in terminal.PHASES:
        colour, _ = terminal.PHASES[one.name]
        return Text.assemble(("■ ", colour), one.name)
    styles = {"change": COLOURS.get(one.outcome, ""), "between": "dim"}
    return Text(getattr(one, column), style=styles.get(column, ""))


def _changes(comparison: Comparison) -> Iterator[RenderableType]:
    if not comparison.changes:
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for one in comparison.changes:
        grid.add_row(Text(one.name), Text.assemble(one.before, (" → ", "dim"), one.after))
    yield Text("set in another way", style="dim")
    yield Padding(grid, (0, 0, 1, 2))


def _findings(comparison: Comparison) -> Iterator[RenderableType]:
    if not comparison.findings:
        return
    grid = Table.grid(padding=(0, 1))
    for one in comparison.findings:
        sign, colour = SIGNS.get(one.status, ("=", "dim"))
        place = f"  {_place(one)}" if one.file else ""
        text = Text.assemble(one.summary, (place, "cyan"), (f"  {one.status}", "dim"))
        grid.add_row(Text(sign, style=colour), text)
    yield Text("findings", style="dim")
    yield Padding(grid, (0, 0, 1, 2))


def _place(one: Seen) -> str:
    return f"{terminal.short(one.file or '')}:{one.line}"


def _learning(comparison: Comparison) -> Iterator[RenderableType]:
    if comparison.guard is not None:
        yield Text.assemble(("loss, as it is  ", "dim"), comparison.guard.reason + "\n")


def _notes(comparison: Comparison) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 1))
    for note in comparison.notes:
        grid.add_row(Text("!", style="yellow"), Text(note, style="yellow"))
    yield grid


def plain(comparison: Comparison) -> str:
    """The same for a file: no colours, and lines as long as they are."""
    console = Console(width=FILE_WIDTH, color_system=None, file=io.StringIO(), highlight=False)
    with console.capture() as drawn:
        console.print(render(comparison))
    return "\n".join(line.rstrip() for line in drawn.get().splitlines()).strip("\n") + "\n"
