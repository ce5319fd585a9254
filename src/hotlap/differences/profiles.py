"""Two profiles: how much faster a step has become, and which phase that comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotlap import units
from hotlap.comparisons import FASTER, GONE, NEW, SAME, STILL, Figure, Seen
from hotlap.differences import contrasts
from hotlap.records import MEMORY_PARTS, PHASES, Finding, Profile, Step, as_told
from hotlap.reports import facts
from hotlap.rules import busy_machine
from hotlap.search import comparing
from hotlap.search.comparing import Spread
from hotlap.tunings import Run, Speedup

STARTS = {
    "seconds": "before training",
    "first_batch_seconds": "to the first batch",
    "compile_seconds": "compiling",
}
DECILES = 2.563  # standard deviations between the 10th and the 90th percentile
BEYOND = 0.1  # of the steps, above the latter
OTHER_SAMPLES_FROM = 0.005  # a step of that many more samples is another step
MOST_OF_IT = 0.5
UNITS = {"optimizer": "the optimizer", "backward": "the backward pass"}


def differ(before: float, after: float) -> bool:
    """Whether these samples a step are not the same."""
    return abs(after / before - 1) > OTHER_SAMPLES_FROM


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both, with what a step is told as: the mean for both where it is not the median of one.

    Samples a second go by the mean, so where these are told of it is the mean as well.
    """

    before: Profile
    after: Profile

    @property
    def average(self) -> bool:
        both = (self.before.step, self.after.step)
        return self.other_steps or any(facts.average(one) for one in both)

    @property
    def counted(self) -> bool:
        """Whether the samples of both are known."""
        return bool(self.before.step.samples and self.after.step.samples)

    @property
    def counted_apart(self) -> bool:
        """Whether a step of one is not what one of the other is, nor is its number of samples."""
        return not self.counted and self.before.step.unit != self.after.step.unit

    @property
    def other_steps(self) -> bool:
        """Whether a step has other samples now: then only what one sample takes compares."""
        ours, theirs = self.before.step.samples or 1.0, self.after.step.samples or 1.0
        return self.counted and differ(ours, theirs)

    def seconds(self, profile: Profile) -> float:
        return profile.step.mean_seconds if self.average else profile.step.median_seconds

    def cost(self, profile: Profile) -> float:
        """Seconds of a sample; of a step where samples are not counted."""
        return self.seconds(profile) / ((self.counted and profile.step.samples) or 1.0)


def gain(pair: Pair) -> Speedup | None:
    """From one run each: what runs of one command differ by is assumed, as a tuning does.

    None where no such assumption holds: a machine that does other work may take ten times as long.
    """
    if busy(pair) or pair.counted_apart:
        return None
    runs = [
        Run(folder=one.folder, step_seconds=pair.cost(one)) for one in (pair.before, pair.after)
    ]
    return comparing.speedup(runs[:1], runs[1:], _noise(pair))


def _noise(pair: Pair) -> Spread:
    within = max(_within(one.step, average=pair.average) for one in (pair.before, pair.after))
    deviation = max(comparing.PRIOR_SPREAD, within)
    return Spread(deviation=deviation, degrees=comparing.PRIOR_DEGREES)


def _within(step: Step, *, average: bool) -> float:
    """The standard error of a step's time from the run's own steps, as a share of it.

    A mean above all that steps up to the 90th percentile can give comes from the few beyond it: a
    tenth at most, and another run has more or less of them.
    """
    told = step.mean_seconds if average else step.median_seconds
    even = (step.high_seconds - step.low_seconds) / DECILES / math.sqrt(max(1, step.count))
    usual = (step.median_seconds + step.high_seconds) / 2
    rare = (step.mean_seconds - usual) / math.sqrt(max(1, BEYOND * step.count))
    return max(even, rare if average else 0.0) / told


def busy(pair: Pair) -> list[str]:
    """Which of them ran beside something else."""
    both = {"first": pair.before, "second": pair.after}
    return [name for name, one in both.items() if _found(one, busy_machine.NAME)]


def _found(profile: Profile, rule: str) -> bool:
    return any(one.rule == rule for one in profile.findings)


# Figures -------------------------------------------------------------------------------------


def figures(pair: Pair) -> Iterator[Figure]:
    before, after = pair.before, pair.after
    yield from _steps(pair)
    rates = (before.step.samples_per_second, after.step.samples_per_second)
    yield from contrasts.plain("samples a second", "step", "rate", *rates)
    if pair.other_steps:
        counts = (before.step.samples, after.step.samples)
        yield from contrasts.plain("samples a step", "step", "number", *counts)
    ours, theirs = as_told(before).phases, as_told(after).phases
    for name in PHASES:
        yield from contrasts.plain(
            name, "phases", "seconds", ours[name].seconds, theirs[name].seconds
        )
    yield from _memory(pair)
    for field, name in STARTS.items():
        found = (getattr(before.startup, field), getattr(after.startup, field))
        yield from contrasts.plain(name, "start", "seconds", *found)


def _steps(pair: Pair) -> Iterator[Figure]:
    """The step; where it has other samples now, first what each of them takes."""
    ours, theirs = pair.seconds(pair.before), pair.seconds(pair.after)
    if not pair.other_steps:
        yield contrasts.timed("step", "step", ours, theirs, gain(pair))
        return
    costs = pair.cost(pair.before), pair.cost(pair.after)
    yield contrasts.timed("a sample", "step", *costs, gain(pair))
    yield from contrasts.plain("step", "step", "seconds", ours, theirs)


def _memory(pair: Pair) -> Iterator[Figure]:
    ours, theirs = pair.before.memory, pair.after.memory
    if ours.kind != theirs.kind:
        return  # bytes of a process and bytes on a device are not the same thing
    yield from contrasts.plain("at the peak", "memory", "bytes", ours.peak_bytes, theirs.peak_bytes)
    for name in MEMORY_PARTS:
        found = (getattr(ours, f"{name}_bytes"), getattr(theirs, f"{name}_bytes"))
        yield from contrasts.plain(name, "memory", "bytes", *found)


# Words ---------------------------------------------------------------------------------------


def summary(pair: Pair) -> str:
    found = gain(pair)
    of = "" if pair.other_steps else " a step on average" if pair.average else " a step"
    said = told(found, *_values(pair), of=of, why=_why_not(pair))
    return " ".join(filter(None, (said, _cause(pair) if is_apart(found) else "")))


def _values(pair: Pair) -> tuple[str, str]:
    both = (pair.before, pair.after)
    if pair.other_steps:
        ours, theirs = (units.rate(1 / pair.cost(one)) for one in both)
    else:
        ours, theirs = (units.seconds(pair.seconds(one)) for one in both)
    return ours, theirs


def is_apart(found: Speedup | None) -> bool:
    return found is not None and not found.low <= 1.0 <= found.high


def was_busy(which: Sequence[str]) -> str:
    """The machine was busy in both runs."""
    return f"the machine was busy in {_runs(which)}"


def _runs(which: Sequence[str]) -> str:
    return "both runs" if len(which) > 1 else f"the {which[0]} run"


def _why_not(pair: Pair) -> str:
    """Why nothing can be said of the difference."""
    return was_busy(busy(pair)) if busy(pair) else "a step of one may not be that of the other"


def told(
    found: Speedup | None, before: str, after: str, *, of: str = " a step", why: str = ""
) -> str:
    """1.84 times as fast (1.68 to 2.02): 38.1 ms a step become 20.7 ms."""
    if found is None:
        if not why:
            return f"The steps of the two cannot be compared: {before} and {after}{of}."
        return f"{before} and {after}{of}, but whether that is a difference cannot be told: {why}."
    word = contrasts.outcome("rate", found)  # of a gain more is faster
    if word == SAME:
        between = f"{found.ratio:.2f} times as fast, {found.low:.2f} to {found.high:.2f}"
        return f"No difference beyond the noise: {before} and {after}{of} ({between})."
    if word == FASTER:
        times = f"{found.ratio:.2f} times as fast ({found.low:.2f} to {found.high:.2f})"
    else:
        low, high = 1 / found.high, 1 / found.low
        times = f"Slower, {1 / found.ratio:.2f} times as long ({low:.2f} to {high:.2f})"
    return f"{times}: {before}{of} become {after}."


def _cause(pair: Pair) -> str:
    """The phase that most of the difference comes from; the two largest where none has most."""
    found = _phases(pair)
    moved = {name: after - before for name, (before, after) in found.items()}
    whole = _told_seconds(pair, pair.after) - _told_seconds(pair, pair.before)
    order = sorted(moved, key=lambda name: -moved[name] / whole)
    for names in (order[:1], order[:2]):
        if names and sum(moved[name] for name in names) / whole >= MOST_OF_IT:
            of = " a sample" if pair.other_steps else ""
            said = [_moved(name, *found[name], of) for name in names]
            return f"Most of that is {units.listed(said)}."
    return ""


def _phases(pair: Pair) -> dict[str, tuple[float, float]]:
    """Seconds of those that both have: of a step, or of a sample where steps have others now."""
    phases = [(as_told(one).phases, _share(pair, one)) for one in (pair.before, pair.after)]
    found: dict[str, tuple[float, float]] = {}
    for name in PHASES:
        before, after = ((of[name].seconds, share) for of, share in phases)
        if before[0] is not None and after[0] is not None:
            found[name] = (before[0] * before[1], after[0] * after[1])
    return found


def _share(pair: Pair, one: Profile) -> float:
    return 1 / (one.step.samples or 1.0) if pair.other_steps else 1.0


def _told_seconds(pair: Pair, one: Profile) -> float:
    return pair.seconds(one) * _share(pair, one)


def _moved(name: str, before: float, after: float, of: str) -> str:
    return f"{name} ({units.seconds(before)}{of} become {units.seconds(after)})"


def busy_note(which: Sequence[str]) -> str:
    runs = _runs(which)
    return f"The machine was busy with something else in {runs}. Measure again when it is quiet."


def notes(pair: Pair) -> Iterator[str]:
    both = {"first": pair.before, "second": pair.after}
    if pair.other_steps:
        ours, theirs = (units.count(one.step.samples or 0) for one in both.values())
        yield (
            f"A step has {theirs} samples now, {ours} before: the speed-up is that of a sample, "
            "the other times are those of a step."
        )
    if pair.counted_apart:
        ours, theirs = (UNITS.get(one.step.unit, one.step.unit) for one in both.values())
        yield (
            f"The first has its steps counted at {ours}, the second at {theirs}, and their samples "
            "are not known: a step may not be the same work."
        )
    if busy(pair):
        yield busy_note(busy(pair))
        return
    yield from (
        f"The steps of the {name} had not settled." for name in both if not both[name].step.settled
    )
    found = gain(pair)
    if found is not None and not is_apart(found):
        least = units.share(found.high / found.ratio - 1)
        yield (
            f"Two single runs can only show a difference of {least} or more. hotlap tune runs in "
            "turns, and shows smaller ones."
        )


def findings(pair: Pair) -> Iterator[Seen]:
    """What is new first, then what is gone; the same one may point at another line by now."""
    ours, theirs = pair.before.findings, pair.after.findings
    rules = {one.rule for one in ours}
    later = {one.rule for one in theirs}
    yield from (_seen(one, NEW) for one in theirs if one.rule not in rules)
    yield from (_seen(one, GONE) for one in ours if one.rule not in later)
    yield from (_seen(one, STILL) for one in theirs if one.rule in rules)


def _seen(one: Finding, status: str) -> Seen:
    return Seen(rule=one.rule, status=status, summary=one.summary, file=one.file, line=one.line)
