"""A profile as a person reads it in a terminal: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hotlap import units
from hotlap.records import Finding, Memory, Profile, Usage, as_told
from hotlap.reports import facts, wording
from hotlap.rules import slow_rank, verdict

# name: (colour, fill where there is no colour)
PHASES = {
    "input": ("yellow", "▒"),
    "transfer": ("magenta", "░"),
    "forward": ("blue", "█"),
    "backward": ("cyan", "▓"),
    "optimizer": ("green", "▚"),
    "other": ("bright_black", "·"),
}
MEMORY = {
    "parameters": "blue",
    "gradients": "cyan",
    "optimizer": "green",
    "activations": "yellow",
    "rest": "bright_black",
}
WIDEST = 92
LABEL = 8


def render(profile: Profile) -> RenderableType:
    parts = [
        _title(profile),
        _verdict(profile),
        _phases(as_told(profile)),
        _facts(profile),
        *_findings(profile),
        Text(f"kept in {short(profile.folder)}, with the command's output.log", style="dim"),
        _trace(profile),
    ]
    return Padding(Group(*[part for part in parts if part is not None]), (1, 1, 0, 2), expand=False)


def _trace(profile: Profile) -> Text | None:
    if profile.trace is None:
        return None
    return Text(f"trace in {profile.trace}, for ui.perfetto.dev or TensorBoard", style="dim")


def _title(profile: Profile) -> Text:
    environment = profile.environment
    device = environment.get("device_name") or environment.get("processor") or "CPU"
    line = Text("hotlap profile  ", style="dim")
    line.append(wording.command(profile.command), style="default")
    line.append(f"   {device}, torch {environment.get('torch', '?')}\n", style="dim")
    return line


def _verdict(profile: Profile) -> Text:
    return Text(profile.verdict.sentence + "\n", style="bold")


def _has_colours(console: Console) -> bool:
    """A terminal may have them, and its user may have asked for none (NO_COLOR)."""
    return console.color_system is not None and not console.no_color


class Bar:
    """Parts of a whole as one bar, with colours where there are any and patterns where not.

    `length` is its share of the width, for bars that are to be held against each other.
    """

    def __init__(self, parts: Iterable[tuple[float, str, str]], *, length: float = 1.0) -> None:
        self.parts = [part for part in parts if part[0] > 0]
        self.length = length

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, round(self.length * (min(options.max_width, WIDEST) - 1)))
        coloured = _has_colours(console)
        whole = sum(share for share, _, _ in self.parts) or 1.0
        bar, done, drawn = Text(), 0.0, 0
        for share, colour, pattern in self.parts:
            done += share
            cells = round(done / whole * width) - drawn
            drawn += cells
            bar.append(("█" if coloured else pattern) * cells, style=colour)
        yield bar


class Swatch:
    def __init__(self, colour: str, pattern: str) -> None:
        self.colour, self.pattern = colour, pattern

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fill = "█" if _has_colours(console) else self.pattern
        yield Text(fill * 2, style=self.colour)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(2, 2)


def _phases(profile: Profile) -> RenderableType | None:
    if all(phase.seconds is None for phase in profile.phases.values()):
        return None
    bar = Bar((profile.phases[name].share or 0.0, *PHASES[name]) for name in PHASES)
    legend = Table.grid(padding=(0, 2))
    legend.add_column()
    legend.add_column(min_width=max(map(len, PHASES)))
    for justify in ("right", "right", "left"):
        legend.add_column(justify=justify)
    for name, (colour, pattern) in PHASES.items():
        phase = profile.phases[name]
        legend.add_row(
            Swatch(colour, pattern),
            name,
            Text(units.seconds(phase.seconds)),
            Text(units.share(phase.share), style="dim"),
            Text(_phase_note(profile, name), style="dim"),
        )
    return Padding(Group(bar, Padding(legend, (1, 0, 0, 0))), (0, 0, 1, 0))


def _phase_note(profile: Profile, name: str) -> str:
    if profile.phases[name].seconds is None:
        reasons = {
            "input": "another thread fetches" if profile.loaders else "no DataLoader was used",
            "transfer": "no device to copy to",
            "optimizer": "no optimizer was seen to step",
        }
        return reasons.get(name, "not measured")
    if name == profile.verdict.bottleneck and profile.verdict.detail:
        return profile.verdict.detail
    if name == "other":
        named = verdict.busiest(profile, verdict.BETWEEN)
        if named is not None and (profile.phases[name].share or 0) >= 0.05:
            return named[0].package or f"{short(named[0].file)}:{named[0].line}"
    return ""


def _facts(profile: Profile) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=LABEL, style="dim", no_wrap=True)
    table.add_column()
    for label, value in (
        ("step", _step(profile)),
        ("start", _startup(profile)),
        ("memory", _memory(profile.memory)),
        ("machine", _usage(profile.usage, profile)),
        ("ranks", _ranks(profile)),
    ):
        if value is not None:
            table.add_row(label, value)
    return table


def _step(profile: Profile) -> Text:
    step = profile.step
    text = Text.assemble((units.seconds(step.median_seconds), "bold"))
    spread = f"{units.seconds(step.low_seconds)} to {units.seconds(step.high_seconds)}"
    average = facts.average(step)
    text.append(f" ({', '.join([spread, *([average] if average else [])])})", style="dim")
    if step.samples_per_second is not None:
        text.append(f"  {units.rate(step.samples_per_second)}", style="bold")
    if step.samples is not None:
        text.append(f" ({units.count(step.samples)} a step)", style="dim")
    text.append(f"  {units.plural(step.count, 'step')}", style="dim")
    if step.unit == "backward":
        text.append(", counted at backward", style="dim")
    if step.is_uneven:
        text.append(", uneven", style="dim")
    return text


def _startup(profile: Profile) -> Text:
    startup = profile.startup
    text = Text(units.seconds(startup.seconds))
    text.append(" before training", style="dim")
    if startup.import_seconds is not None:
        text.append(f" (torch {units.seconds(startup.import_seconds)})", style="dim")
    if startup.first_batch_seconds is not None:
        text.append(f"  {units.seconds(startup.first_batch_seconds)}")
        text.append(" to the first batch", style="dim")
    if startup.compile_seconds is not None:
        text.append(f"  {units.seconds(startup.compile_seconds)}")
        text.append(" compiling", style="dim")
    return text


def _memory(memory: Memory) -> RenderableType | None:
    if memory.peak_bytes is None:
        return None
    head = Text(units.size(memory.peak_bytes))
    kind = "on the device" if memory.kind == "device" else "of process memory"
    head.append(f" {kind} at the peak", style="dim")
    if memory.reserved_bytes is not None:
        head.append(f", {units.size(memory.reserved_bytes)} reserved", style="dim")
    return Group(head, MemoryParts(memory))


class MemoryParts:
    """Side by side where there is room for all of them, else one below the other."""

    def __init__(self, memory: Memory) -> None:
        names = [Text.assemble(("■ ", colour), name) for name, colour in MEMORY.items()]
        sizes = [units.size(getattr(memory, f"{name}_bytes")) for name in MEMORY]
        self._wide, self._narrow = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
        self._wide.add_row(*names)
        self._wide.add_row(*[Text("  " + size) for size in sizes])
        for name, size in zip(names, sizes, strict=True):
            self._narrow.add_row(name, size)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = Measurement.get(console, options.update(width=WIDEST), self._wide).maximum
        yield self._wide if needed <= options.max_width else self._narrow

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        least = Measurement.get(console, options, self._narrow).maximum
        return Measurement(least, Measurement.get(console, options, self._wide).maximum)


def _usage(usage: Usage, profile: Profile) -> Text | None:
    if not usage.samples:
        return None
    cores = profile.environment.get("cores")
    words = []
    if usage.cores is not None:
        words.append(f"CPU {usage.cores:.1f}" + (f" of {cores:g} cores" if cores else " cores"))
    if usage.memory_bytes is not None:
        words.append(f"RAM {units.size(usage.memory_bytes)}")
    if usage.read_bytes_per_second is not None:
        words.append(f"disk read {units.size(usage.read_bytes_per_second)}/s")
    if usage.gpu_busy is not None:
        words.append(f"GPU {units.share(usage.gpu_busy)} busy")
    if usage.gpu_memory_bytes is not None:
        words.append(f"GPU memory {units.size(usage.gpu_memory_bytes)}")
    return Text("   ".join(words))


def _ranks(profile: Profile) -> Text | None:
    ranks = profile.ranks
    if len(ranks) < 2:
        return None
    if any(rank.rank is None for rank in ranks):
        return Text(f"{len(ranks)} processes train; their samples are counted together")
    own = [rank for rank in ranks if rank.own_seconds is not None]
    if not own:
        return Text(str(len(ranks)))
    slowest = max(own, key=lambda rank: rank.own_seconds or 0.0)
    unclear = "" if slow_rank.slowest(profile) else ", by less than counts"
    return Text(f"{len(ranks)}, the slowest is rank {slowest.rank}{unclear}")


def _findings(profile: Profile) -> list[RenderableType]:
    if not profile.findings:
        return [Text("\nNothing stands out beside the verdict.\n", style="dim")]
    return [Text(), *[_finding(finding) for finding in profile.findings]]


def _finding(finding: Finding) -> RenderableType:
    head = Text.assemble(("● ", "yellow"), (finding.summary, "bold"))
    body = Table.grid(padding=(0, 1))
    if finding.file:
        body.add_row("", Text(f"{short(finding.file)}:{finding.line}", style="cyan"))
    body.add_row("", Text(finding.evidence, style="dim"))
    body.add_row("→", Text(finding.advice))
    body.add_row("", Text(finding.rule, style="dim"))
    return Group(head, Padding(body, (0, 0, 1, 2)))


def short(path: str) -> str:
    """Relative to the working directory where that is shorter."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
