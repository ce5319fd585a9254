"""A tuning in a terminal: the diagnosis, a table that grows row by row, then the winner."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hotlap import tunings, units
from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.reports import facts, rows, wording
from hotlap.rules import WITH_ANY_FIGURE
from hotlap.tunings import Guard, Part, Speedup, Trial, Tuning, Winner

STYLES = {
    tunings.FASTER: "bold green",
    tunings.SMALLER: "bold green",
    tunings.SAME: "default",
    tunings.SLOWER: "yellow",
    tunings.UNPROVEN: "yellow",
    tunings.CHANGED: "bold red",
    tunings.FAILED: "red",
    tunings.OUT_OF_MEMORY: "red",
    tunings.TIMED_OUT: "red",
    tunings.NOT_APPLICABLE: "dim",
    tunings.SKIPPED: "dim",
}
GUARDS = {"passed": "same", "changed": "changed", "unclear": "unclear"}
NAME, STATUS, TIME, RATE, SIZE, RATIO, START, PAYS = 34, 16, 8, 10, 9, 19, 10, 8
# A terminal as wide as this has room for the column; else it is left to the report.
WIDE_FOR_RATE, WIDE_FOR_MEMORY, WIDE_FOR_START, WIDE_FOR_NAMES = 131, 120, 110, 90
SHORT_NAME = 24
Shown = tuple[str, int, Callable[[Trial], str]]  # a title, its width, and what stands below


def intro(profile: Profile) -> RenderableType:
    environment = profile.environment
    device = environment.get("device_name") or environment.get("processor") or "CPU"
    title = Text("hotlap tune  ", style="dim")
    title.append(wording.command(profile.command), style="default")
    title.append(f"   {device}, torch {environment.get('torch', '?')}\n", style="dim")
    step = profile.step
    average = facts.average(step)
    figures = Text(
        f"{units.seconds(step.median_seconds)} a step{f' ({average})' if average else ''}, "
        f"{units.rate(step.samples_per_second)}, "
        f"{units.size(profile.memory.peak_bytes)} at the peak",
        style="dim",
    )
    warnings = [
        Text(f"! {finding.summary} {_sentence(finding.evidence)}", style="yellow")
        for finding in profile.findings
        if finding.rule in WITH_ANY_FIGURE
    ]
    verdict = Text(profile.verdict.sentence, style="bold")
    return Padding(Group(title, verdict, figures, *warnings), (1, 1, 1, 2), expand=False)


def _sentence(evidence: str) -> str:
    return evidence[:1].upper() + evidence[1:].removesuffix(".") + "."


def header(width: int, goal: str = "speed") -> Text:
    cells = ["recipe".ljust(_name(width)), "status".ljust(STATUS)]
    cells += [title.rjust(size) for title, size, _ in _figures(width, goal)]
    cells += ["speed-up (95 %)".rjust(RATIO)]
    if width >= WIDE_FOR_START:
        cells += ["cold start".rjust(START), "pays at".rjust(PAYS)]
    cells += ["loss"]
    return Text("  " + " ".join(cells), style="dim")


def _name(width: int) -> int:
    return NAME if width >= WIDE_FOR_NAMES else SHORT_NAME


def _figures(width: int, goal: str) -> list[Shown]:
    """What stands between status and speed-up: as much as there is room for."""
    step: Shown = ("step", TIME, lambda trial: units.seconds(trial.step_seconds))
    rate: Shown = ("samples/s", RATE, lambda trial: _rate(trial.samples_per_second))
    memory: Shown = ("memory", SIZE, lambda trial: units.size(trial.peak_bytes))
    if width >= WIDE_FOR_RATE:
        return [step, rate, memory]
    if width >= WIDE_FOR_MEMORY:
        return [step, memory]
    return [memory if goal == "memory" else step]


def _rate(samples: float | None) -> str:
    return f"{samples:,.0f}" if samples else "–"


def row(trial: Trial, width: int, goal: str = "speed") -> RenderableType:
    """One line; the reason below it where there is one."""
    name = trial.name if len(trial.name) <= _name(width) else trial.name[: _name(width) - 1] + "…"
    line = Text("  ")
    line.append(("✓ " if trial.kept else "") + name, style="bold" if trial.kept else "default")
    line.append(" " * (_name(width) + 1 - len(line.plain) + 2))
    line.append(trial.status.ljust(STATUS + 1), style=STYLES.get(trial.status, "default"))
    if trial.step_seconds is None:
        fits = len(line.plain) + len(trial.reason) <= width
        line.append(trial.reason if fits else "")
        line.append(_below(_contents(trial), width), style="dim")
        line.append("" if fits else _below(trial.reason, width))
        if trial.log:
            line.append(f"\n    its output: {wording.short(Path(trial.log))}", style="dim")
        return line
    for _, size, shown in _figures(width, goal):
        line.append(shown(trial).rjust(size) + " ")
    line.append(speedup(trial.speedup).rjust(RATIO))
    if width >= WIDE_FOR_START:
        line.append(_start(trial).rjust(START + 1))
        line.append(_pays(trial).rjust(PAYS + 1))
    line.append(" " + guard(trial.guard))
    for text in (_contents(trial), trial.reason):
        line.append(_below(text, width), style="dim")
    return line


def _below(text: str, width: int) -> str:
    """In lines of their own under the row; a path or a name is not broken."""
    lines = textwrap.wrap(text, width - 4, break_long_words=False, break_on_hyphens=False)
    return "".join(f"\n    {line}" for line in lines)


def _contents(trial: Trial) -> str:
    """What a row of several changes consists of."""
    return "= " + Recipe(trial.recipe).label() if rows.is_several(trial) else ""


def speedup(value: Speedup | None) -> str:
    if value is None:
        return wording.NOTHING
    middle = wording.NOTHING if value.is_vague else f"{value.ratio:.2f}x"
    return f"{middle} ({value.low:.2f}–{value.high:.2f})"


def guard(value: Guard | None) -> str:
    if value is not None and wording.is_allowed(value):
        return "allowed"
    return GUARDS.get(value.status, "–") if value else "–"


def _start(trial: Trial) -> str:
    more = trial.start_seconds
    if more is None or abs(more) < 1:
        return "–"
    return f"{more:+.0f} s"


def _pays(trial: Trial) -> str:
    steps, found = trial.break_even_steps, trial.speedup
    if steps is None or not trial.start_seconds or trial.start_seconds < 1:
        return "–"
    if found is not None and found.is_vague:
        return "–"
    return f"{steps:,}" if steps < 1e6 else f"{steps / 1e6:.1f} M"


def untried(trials: list[Trial]) -> RenderableType | None:
    """What was not tried, and why; what has the same reason stands together."""
    if not trials:
        return None
    reasons: dict[tuple[str, str], list[str]] = {}
    for trial in trials:
        reasons.setdefault((trial.status, trial.reason), []).append(trial.name)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for (status, reason), names in reasons.items():
        what = Text(", ".join(names))
        table.add_row(Text(status, style="dim"), what.append(f": {reason}", style="dim"))
    return Padding(table, (1, 1, 0, 2))


def outcome(tuning: Tuning, *, recipe: str | None = None) -> RenderableType:
    """The winner: the gain, what it changes, the recipe."""
    parts: list[RenderableType] = [Text(tuning.summary, style="bold"), Text("")]
    if tuning.winner is not None:
        parts += _winner(tuning.winner)
        toml = Recipe(tuning.winner.recipe).to_toml()
        parts.append(Text(_file(tuning, recipe), style="dim"))
        parts.append(Padding(Text(toml.rstrip("\n")), (0, 0, 0, 2)))
    return Padding(Group(*parts), (1, 1, 0, 2), expand=False)


def closing(tuning: Tuning, *, recipe: str | None = None, width: int | None = None) -> list[Text]:
    """What to type next, and the page: lines that must not be broken, however long they are.

    Half a command that was copied trains something else. `width` is None where any is right.
    """
    lines = []
    if tuning.winner is not None:
        file = _file(tuning, recipe)
        command = "hotlap run "
        if file != "hotlap.toml":
            command += f"--recipe {shlex.quote(file)} "
        command += shlex.join(tuning.command)
        lines.append(Text.assemble(("  train with it: ", "dim"), (command, "bold")))
    page = wording.short(Path(tuning.folder) / "report.html")
    report, logs = f"  report: {page}", "logs of the trials beside it"
    fits = width is None or len(report) + 3 + len(logs) <= width
    words = [f"{report}   {logs}"] if fits else [report, f"  {logs}"]
    return lines + [Text(one, style="dim") for one in words]


def _file(tuning: Tuning, recipe: str | None) -> str:
    return recipe or wording.short(Path(tuning.folder) / "recipe.toml")


def _winner(winner: Winner) -> list[RenderableType]:
    table = Table.grid(padding=(0, 2))
    for part in winner.parts:
        table.add_row(*_part(part))
    lines: list[RenderableType] = [table, Text("")]
    lines.append(Text(f"loss: {winner.guard.reason}", style="dim"))
    if winner.peak_bytes and winner.baseline_peak_bytes:
        lines.append(
            Text(
                f"memory at the peak: {units.size(winner.baseline_peak_bytes)} before, "
                f"{units.size(winner.peak_bytes)} after",
                style="dim",
            )
        )
    if winner.start_seconds is not None and winner.start_seconds >= 1 and winner.break_even_steps:
        lines.append(
            Text(
                f"start: {winner.start_seconds:.0f} s longer, paid back after "
                f"{winner.break_even_steps:,} steps",
                style="dim",
            )
        )
    lines.append(Text(""))
    return lines


def _part(part: Part) -> tuple[Text, Text, Text]:
    words = " ".join([part.name, *map(str, part.settings.values())])
    gain = Text(speedup(part.speedup), style="green" if part.speedup else "dim")
    if part.note:
        gain.append(f" {part.note}", style="dim")
    return Text(words, style="bold"), gain, Text(part.by_hand, style="cyan")
