"""The few figures at the top of a page, and how to get them again."""

from __future__ import annotations

from dataclasses import dataclass

from hotlap import units
from hotlap.records import Profile, Step
from hotlap.reports import wording
from hotlap.tunings import Noise, Tuning, Winner

AVERAGE_IS_TOLD_FROM = 0.02  # of the median: a smaller difference does not show in the rate


@dataclass(frozen=True)
class Fact:
    name: str
    value: str
    note: str = ""


def number(tuning: Tuning) -> Fact | None:
    """The one figure to remember: the gain, with the interval it is known to."""
    winner = tuning.winner
    if winner is None or wording.finite(winner.speedup.ratio) is None:
        return None
    between = wording.interval(winner.speedup)
    interval = f"95 % interval {between}" if between else ""
    saved = wording.saved_bytes(tuning)
    if tuning.goal == "memory" and saved is not None:
        sizes = f"{wording.size(winner.peak_bytes)} of {wording.size(winner.baseline_peak_bytes)}"
        speed = f"at {wording.ratio(winner.speedup.ratio)} the speed ({interval})"
        return Fact("less memory", wording.share(saved), f"{sizes}, {speed}")
    return Fact("as fast", wording.ratio(winner.speedup.ratio), interval)


def of_tuning(tuning: Tuning) -> list[Fact]:
    if tuning.winner is None:
        return of_profile(tuning.baseline)
    winner = tuning.winner
    return [
        Fact("a step", wording.seconds(winner.step_seconds), _was(winner.baseline_seconds)),
        Fact(
            "samples a second",
            wording.rate(winner.samples_per_second, "").strip(),
            _before(wording.rate(wording.baseline_rate(tuning), "").strip()),
        ),
        Fact(
            "memory at the peak",
            wording.size(winner.peak_bytes),
            _before(wording.size(winner.baseline_peak_bytes)),
        ),
        Fact("start-up", wording.start(winner.start_seconds), _pays(winner)),
        Fact(
            "learning",
            wording.learning(winner.guard),
            winner.guard.reason,
        ),
    ]


def _was(value: float | None) -> str:
    return _before(wording.seconds(value))


def _before(words: str) -> str:
    return "" if words == wording.NOTHING else f"was {words}"


def _pays(winner: Winner) -> str:
    """After how many steps a longer start is paid back, and how long that takes with the start."""
    steps = wording.break_even(winner.break_even_steps, winner.start_seconds)
    if not steps or winner.break_even_steps is None:
        return ""
    each, start = wording.finite(winner.step_seconds), wording.finite(winner.start_seconds)
    if each is None or start is None:
        return f"pays after {steps}"
    return f"pays after {steps}, {units.seconds(start + winner.break_even_steps * each)} in all"


def average(step: Step) -> str:
    """The mean step where it is not the median that is shown: samples a second go by the mean."""
    mean, median = wording.finite(step.mean_seconds), wording.finite(step.median_seconds)
    if mean is None or median is None or abs(mean - median) < AVERAGE_IS_TOLD_FROM * median:
        return ""
    return f"{units.seconds(mean)} on average"


def of_profile(profile: Profile) -> list[Fact]:
    step, startup, memory = profile.step, profile.startup, profile.memory
    between = f"{wording.seconds(step.low_seconds)} to {wording.seconds(step.high_seconds)}"
    known = wording.finite(step.samples)
    each = f"{units.count(known)} a step" if known is not None else ""
    each = ", ".join(words for words in (each, average(step)) if words)
    torch = wording.finite(startup.import_seconds)
    where = "on the device" if memory.kind == "device" else "of the process and its loader workers"
    if wording.finite(memory.peak_bytes) is None:
        where = ""
    return [
        Fact("a step", wording.seconds(step.median_seconds), f"eight in ten {between}"),
        Fact("samples a second", wording.rate(step.samples_per_second, "").strip(), each),
        Fact("memory at the peak", wording.size(memory.peak_bytes), where),
        Fact(
            "before training",
            wording.seconds(startup.seconds),
            f"importing torch {units.seconds(torch)}" if torch is not None else "",
        ),
        Fact("steps timed", units.count(step.count), "" if step.settled else "not settled"),
    ]


def unsplit(profile: Profile) -> str:
    """Of memory whose parts are not known."""
    if wording.finite(profile.memory.peak_bytes) is None:
        return "Memory was not measured."
    return f"The peak was {wording.size(profile.memory.peak_bytes)}; its parts are not known."


def peaks(tuning: Tuning) -> str:
    """Why the memory's parts do not add up to the figure at the top, where they do not."""
    winner = tuning.winner
    if winner is None:
        return ""
    sides = [("before", tuning.baseline.memory.peak_bytes, winner.baseline_peak_bytes)]
    if winner.profile is not None:
        sides.append(("after", winner.profile.memory.peak_bytes, winner.peak_bytes))
    known = [
        f"{wording.size(median)} {name}"
        for name, one, median in sides
        if wording.finite(median) is not None and wording.size(one) != wording.size(median)
    ]
    if not known:
        return ""
    return (
        "This is the peak of two steps in a single run, and it differs from run to run. "
        f"At the top stands the median over all runs: {units.listed(known)}."
    )


def learning(tuning: Tuning) -> str:
    """What the guard says of the winner."""
    if tuning.winner is None:
        return ""
    guard = tuning.winner.guard
    if wording.is_allowed(guard):
        return "What is learned changes, as allowed."
    head = {
        "passed": "Learning did not change",
        "changed": "Learning changed",
        "unclear": "Whether learning changed cannot be told",
    }.get(guard.status, guard.status)
    return f"{head}: {guard.reason}." if guard.reason else f"{head}."


def noise(found: Noise) -> str:
    """How far two runs of the very same command are apart here."""
    low, high = wording.finite(found.low), wording.finite(found.high)
    if found.runs < 2 or low is None or high is None:
        return ""
    return (
        f"Runs of the same thing differ by {wording.share(found.spread)} here: a ratio of two "
        f"single runs proves nothing between {low:.2f} and {high:.2f}."
    )


def commands(tuning: Tuning) -> list[tuple[str, str]]:
    again = ("Tune again", wording.tune_command(tuning))
    if tuning.winner is None:
        return [again]
    return [
        ("Train with the recipe", wording.run_command(tuning, wording.own_recipe(tuning))),
        again,
    ]
