"""Words the page, the Markdown and the table of a tuning share. Nothing here says None or nan."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from hotlap import stats, units
from hotlap.answers import Answer, Called, Timed, Trained
from hotlap.recipes import FILE, Recipe
from hotlap.records import Profile
from hotlap.tunings import Guard, Run, Speedup, Tuning

Say = Callable[[float | None], str]
# What terminals obey: colours, cursors, titles; and single signs that are none to read.
_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_SIGNS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    **dict.fromkeys(range(0x7F, 0xA0), "\N{REPLACEMENT CHARACTER}"),
}
NOTHING = "–"
USUAL_BUDGET = 600.0  # seconds: what hotlap tune takes unless told
NUMERICS = {
    "identical": "The same arithmetic.",
    "close": "The same on average: rounding or random numbers differ.",
    "changes": "What is learned may differ.",
}
GUARD = {"passed": "unchanged", "changed": "changed", "unclear": "too little to tell"}


def is_allowed(guard: Guard) -> bool:
    """Whether the recipe changes what is learned, and the user said that it may."""
    return guard.reason.startswith("changes what is learned")


def learning(guard: Guard) -> str:
    """What became of the loss, in a word or two."""
    if is_allowed(guard):
        return "changed, as allowed"
    return GUARD.get(guard.status, guard.status)


def visible(text: str) -> str:
    """Without what a terminal would obey."""
    return _SEQUENCES.sub("", text).translate(_SIGNS)


def finite(value: Any) -> float | None:
    """A number, or None for all that is none: a ratio over nothing must not be shown as one."""
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def seconds(value: float | None) -> str:
    return units.seconds(finite(value))


def size(value: float | None) -> str:
    return units.size(finite(value))


def share(value: float | None) -> str:
    return units.share(finite(value))


def accuracy(value: float | None) -> str:
    return units.accuracy(finite(value))


def decimal(value: float | None) -> str:
    return units.decimal(finite(value))


def rate(value: float | None, unit: str = "samples/s") -> str:
    return units.rate(finite(value), unit)


def count(value: float | None) -> str:
    known = finite(value)
    return NOTHING if known is None else units.count(known)


def start(more: float | None) -> str:
    """How much longer the start takes than the baseline's; a second is within chance."""
    known = finite(more)
    if known is None:
        return NOTHING
    if abs(known) < 1:
        return "as before"
    return f"{'−' if known < 0 else '+'}{units.seconds(abs(known))}"


def ratio(value: float | None) -> str:
    known = finite(value)
    if known is None:
        return NOTHING
    return f"{known:.2f}×" if known < 100 else f"{known:,.0f}×"


def estimate(speedup: Speedup | None) -> str:
    """The ratio, where its interval leaves it a meaning."""
    return NOTHING if speedup is None or speedup.is_vague else ratio(speedup.ratio)


def interval(speedup: Speedup | None) -> str:
    """1.79 to 1.90; empty where an end is not known."""
    if speedup is None or finite(speedup.low) is None or finite(speedup.high) is None:
        return ""
    return f"{speedup.low:.2f} to {speedup.high:.2f}"


def speedup(found: Speedup | None) -> str:
    """1.84× (1.79 to 1.90)."""
    if found is None or finite(found.ratio) is None:
        return NOTHING
    between = interval(found)
    return estimate(found) + (f" ({between})" if between else "")


def break_even(steps: int | None, more: float | None) -> str:
    """After how many steps a longer start is paid back; empty where it is not longer."""
    known = finite(more)
    if steps is None or known is None or known < 1:
        return ""
    return units.plural(steps, "step")


def when(created: str) -> str:
    """15 November 2026, 04:28 UTC; as it stands where it is no date."""
    try:
        moment = datetime.strptime(created, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return created
    zone = "UTC" if not moment.utcoffset() else moment.strftime("UTC%z")
    return f"{moment.day} {moment:%B %Y, %H:%M} {zone}"


def machine(profile: Profile) -> str:
    return on(profile.environment)


def on(environment: Mapping[str, Any]) -> str:
    """NVIDIA H200, torch 2.11.0."""
    device = environment.get("device_name") or environment.get("processor") or "CPU"
    version = environment.get("torch")
    return f"{device}, torch {version}" if version else str(device)


def place(file: str, line: int | None, folder: str) -> str:
    """train.py:68, seen from where the run was started (the folder that holds .hotlap)."""
    path, kept = PurePosixPath(file), PurePosixPath(folder)
    here = next((one.parent for one in (kept, *kept.parents) if one.name == ".hotlap"), None)
    inside = here is not None and path.is_relative_to(here)
    short = str(path.relative_to(here)) if here is not None and inside else file
    return short if line is None else f"{short}:{line}"


def short(path: Path) -> str:
    """Seen from the working directory, where it is below that."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def settings(of: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in of.items())


def recipe_text(tuning: Tuning) -> str:
    """The winner's recipe as the file it goes into."""
    if tuning.winner is None:
        return ""
    gain = f"{speedup(tuning.winner.speedup)} on {shlex.join(tuning.command)}"
    return Recipe(tuning.winner.recipe).to_toml(gain)


def command(words: Sequence[str]) -> str:
    """As it was typed; a program on the command line is told by its first line."""
    return shlex.join([first_line(word) for word in words])


def first_line(word: str) -> str:
    first, *rest = word.strip().split("\n")
    return f"{first.rstrip()} …" if rest else word


def run_command(tuning: Tuning, recipe: str = FILE) -> str:
    return shlex.join(["hotlap", "run", "--recipe", recipe, *tuning.command])


def own_recipe(tuning: Tuning) -> str:
    """The run's own file: a hotlap.toml in the working directory may be an older one."""
    return place(f"{tuning.folder}/recipe.toml", None, tuning.folder)


def tune_command(tuning: Tuning) -> str:
    options = [] if tuning.goal == "speed" else ["--goal", tuning.goal]
    if tuning.budget_seconds != USUAL_BUDGET and finite(tuning.budget_seconds):
        options += ["--budget", f"{max(1, round(tuning.budget_seconds))}s"]
    for name in ("only", "skip", "allow"):
        for value in tuning.options.get(name) or ():
            options += [f"--{name}", str(value)]
    if tuning.options.get("steps_planned"):
        options += ["--steps-planned", str(tuning.options["steps_planned"])]
    return shlex.join(["hotlap", "tune", *options, *tuning.command])


def study_command(answer: Answer) -> str:
    words = ["hotlap", "study", answer.study]
    for name, value in answer.options.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)] if value else []
    return shlex.join(words)


def cell_words(cell: Timed | Trained | Called) -> str:
    """What was run, and under which recipe."""
    if isinstance(cell, Called):
        given = ", ".join(f"{name}={value!r}" for name, value in cell.arguments.items())
        return f"{cell.function}({given})"
    return shlex.join(cell.words) + _under(Recipe(cell.recipe))


def _under(recipe: Recipe) -> str:
    """with batch-size: factor 4, learning rate linear; and device-input"""
    parts = [
        f"{name}: {settings({key.replace('-', ' '): of[key] for key in of})}" if of else name
        for name, of in recipe.changes.items()
    ]
    return f" with {'; '.join(parts)}" if parts else ""


def baseline_rate(tuning: Tuning) -> float | None:
    """Samples a second of the baseline, from the runs the speed-up is computed from."""
    known = [one for one in (_sample_seconds(run) for run in tuning.baseline_runs) if one]
    return 1 / stats.median(known) if known else tuning.baseline.step.samples_per_second


def _sample_seconds(run: Run) -> float | None:
    return finite(run.sample_seconds) if run.status is None else None


def saved_bytes(tuning: Tuning) -> float | None:
    """The share of the baseline's peak memory the winner does without."""
    winner = tuning.winner
    if winner is None or not winner.peak_bytes or not winner.baseline_peak_bytes:
        return None
    return 1 - winner.peak_bytes / winner.baseline_peak_bytes


def winners_runs(tuning: Tuning) -> Sequence[Run]:
    """Runs under the winner's recipe; the last ones kept where none has exactly that recipe."""
    if tuning.winner is None:
        return ()
    if tuning.winner.runs:
        return tuning.winner.runs
    same = [trial for trial in tuning.trials if trial.runs and trial.recipe == tuning.winner.recipe]
    kept = [trial for trial in tuning.trials if trial.runs and trial.kept]
    trials = same or kept
    return trials[-1].runs if trials else ()
