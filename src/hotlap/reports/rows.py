"""One line for each trial, in words: the same for the page and for Markdown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hotlap import tunings
from hotlap.recipes import Recipe
from hotlap.reports import wording
from hotlap.tunings import Trial, Tuning

BASELINE = "baseline"

# status: (kind, which is its colour; sign, so that the colour is never alone)
STATUS = {
    tunings.FASTER: ("good", "▲"),
    tunings.SMALLER: ("good", "◆"),
    tunings.SAME: ("even", "="),
    tunings.SLOWER: ("bad", "▼"),
    tunings.CHANGED: ("bad", "≠"),
    tunings.UNPROVEN: ("open", "?"),
    tunings.FAILED: ("broken", "✕"),
    tunings.OUT_OF_MEMORY: ("broken", "✕"),
    tunings.TIMED_OUT: ("broken", "✕"),
    tunings.NOT_APPLICABLE: ("none", "–"),
    tunings.SKIPPED: ("none", "–"),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    recipe: str  # only where name and `against` do not say it
    status: str
    kind: str
    sign: str
    reason: str
    kept: bool
    against: str
    measured: bool
    step: str
    rate: str
    memory: str
    ratio: str
    interval: str
    overall: str  # only where it was compared with something else than the baseline
    start: str
    start_note: str
    break_even: str
    guard: str
    guard_reason: str
    log: str


def of(tuning: Tuning) -> list[Row]:
    """What was measured first, then what went wrong, then what was not tried."""
    names = {_label(trial): trial.name for trial in reversed(tuning.trials) if trial.recipe}
    made = [_row(trial, names, tuning.folder) for trial in tuning.trials]
    return sorted(_together(made), key=lambda row: (not row.measured, row.kind != "broken"))


def _together(rows: list[Row]) -> list[Row]:
    """What was not tried for the same reason is one row."""
    found: dict[tuple[str, ...], Row] = {}
    for at, row in enumerate(rows):
        alone = row.measured or row.kind == "broken" or row.log
        key = (str(at),) if alone else (row.status, row.reason)
        known = found.get(key)
        found[key] = (
            row if known is None else replace(known, name=f"{known.name}, {row.name}", recipe="")
        )
    return list(found.values())


def is_several(trial: Trial) -> bool:
    """Whether it is several changes at once, under a name that does not say which."""
    return trial.name.startswith("everything")


def _label(trial: Trial) -> str:
    return Recipe(trial.recipe).label() if trial.recipe else ""


def _row(trial: Trial, names: dict[str, str], folder: str) -> Row:
    """`names` has a short name for each recipe: a trial says with it what it was compared with."""
    kind, sign = STATUS.get(trial.status, ("open", "·"))
    label = _label(trial) if trial.against == BASELINE or is_several(trial) else ""
    guard = trial.guard
    return Row(
        name=trial.name,
        recipe="" if label == trial.name else label,
        status=trial.status,
        kind=kind,
        sign=sign,
        reason=trial.reason,
        kept=trial.kept,
        against=names.get(trial.against, trial.against),
        measured=trial.step_seconds is not None or trial.speedup is not None,
        step=wording.seconds(trial.step_seconds),
        rate=wording.rate(trial.samples_per_second, "").strip(),
        memory=wording.size(trial.peak_bytes),
        ratio=wording.estimate(trial.speedup),
        interval=wording.interval(trial.speedup),
        overall=_overall(trial),
        start=wording.start(trial.start_seconds),
        start_note=_cache(trial),
        break_even=_break_even(trial),
        guard=wording.learning(guard) if guard else wording.NOTHING,
        guard_reason=guard.reason if guard else "",
        log=wording.place(trial.log, None, folder) if trial.log else "",
    )


def _break_even(trial: Trial) -> str:
    """It follows from the speed-up, and is as vague."""
    if trial.speedup is not None and trial.speedup.is_vague:
        return ""
    return wording.break_even(trial.break_even_steps, trial.start_seconds)


def _overall(trial: Trial) -> str:
    if trial.overall is None or trial.against == BASELINE:
        return ""
    found = wording.estimate(trial.overall)
    return "" if found == wording.NOTHING else found


def _cache(trial: Trial) -> str:
    """A start that found the compiler's cache filled is shorter than the first one will be."""
    longer = (wording.finite(trial.start_seconds) or 0.0) >= 1
    return "compiler cache filled" if longer and not trial.start_is_cold else ""
