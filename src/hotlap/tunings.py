"""What a tuning found, as frozen records: every trial with its status, reason and interval."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from hotlap import records
from hotlap.records import Profile

SCHEMA = 1
FILE = "tuning.json"

# Every row ends in one of these; `reason` says why where it is not plain.
FASTER = "faster"
SMALLER = "smaller"  # with --goal memory
SAME = "no difference"
SLOWER = "slower"
CHANGED = "changed the loss"
FAILED = "failed"
OUT_OF_MEMORY = "out of memory"
TIMED_OUT = "timed out"
NOT_APPLICABLE = "not applicable"
SKIPPED = "skipped"
UNPROVEN = "unproven"  # seems faster, but too few runs for it or too few steps for the guard
STATUSES = (
    FASTER,
    SMALLER,
    SAME,
    SLOWER,
    CHANGED,
    UNPROVEN,
    FAILED,
    OUT_OF_MEMORY,
    TIMED_OUT,
    NOT_APPLICABLE,
    SKIPPED,
)

Recipe = dict[str, dict[str, Any]]
TOO_WIDE = 3.0  # the ends of an interval, one over the other


class Speedup(msgspec.Struct, frozen=True, kw_only=True):
    """Time of what it is compared with over its own, per sample; 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def is_vague(self) -> bool:
        """Slower or faster, and by how much, is all open: the figure in the middle says nothing."""
        return self.low < 1.0 < self.high and self.high > TOO_WIDE * self.low


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the loss curve is the baseline's, within the baseline's own noise."""

    status: str  # passed, changed, unclear
    reason: str
    steps: int = 0
    difference: float | None = None  # of the mean losses over the later half
    tolerance: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the command: what a comparison needs of its record."""

    folder: str
    step_seconds: float | None = None  # mean over the timed windows, starting loaders included
    sample_seconds: float | None = None  # the same for one sample
    windows: tuple[float, ...] = ()  # means of the timed windows
    peak_bytes: int | None = None
    start_seconds: float | None = None  # from the start until steps take their usual time
    compile_seconds: float | None = None
    cold: bool = False  # it was compiled here for the first time, not taken from the cache
    filling: bool = (
        False  # it filled a cache of samples: later epochs are faster, it is not compared
    )
    epoch_steps: int | None = None  # batches of an epoch, where the loader knows
    seed: int = 0  # the shift of the script's random numbers
    other_cores: float | None = None  # burned by everything else on the machine meanwhile
    disturbed: bool = False  # by that; left out of comparisons where there are quiet runs
    seconds: float = 0.0
    steps: int = 0
    ended: bool = False  # by itself: hotlap did not stop it
    losses: tuple[float | None, ...] = ()
    status: str | None = None  # why there is nothing to compare
    reason: str = ""
    refused: dict[str, str] = {}  # optimizations that could not be applied, and why
    detail: dict[str, str] = {}  # what those applied did


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a recipe against what it was compared with."""

    name: str
    recipe: Recipe
    status: str
    reason: str = ""
    against: str = "baseline"
    speedup: Speedup | None = None  # against what stands in `against`
    overall: Speedup | None = None  # against the baseline
    guard: Guard | None = None
    step_seconds: float | None = None
    samples_per_second: float | None = None
    peak_bytes: int | None = None
    start_seconds: float | None = None  # more than the baseline needs, to its usual step time
    start_is_cold: bool = True
    break_even_steps: int | None = None
    kept: bool = False
    runs: tuple[Run, ...] = ()
    log: str | None = None


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Baseline against baseline, fresh processes."""

    runs: int
    spread: float  # standard deviation of a run's time, as a share of it
    low: float  # a ratio of two single runs below or above these is the machine's doing
    high: float


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the winner and what it contributes: the winner against the winner without."""

    name: str
    settings: dict[str, Any]
    numerics: str
    by_hand: str
    speedup: Speedup | None = None
    note: str = ""


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    recipe: Recipe
    speedup: Speedup
    guard: Guard
    parts: tuple[Part, ...]
    step_seconds: float
    baseline_seconds: float
    samples_per_second: float | None
    peak_bytes: int | None
    baseline_peak_bytes: int | None
    start_seconds: float | None
    break_even_steps: int | None
    profile: Profile | None = None  # where the winner's steps go
    runs: tuple[Run, ...] = ()


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    schema: int
    hotlap: str
    command: tuple[str, ...]
    created: str
    folder: str
    goal: str
    budget_seconds: float
    options: dict[str, Any]  # the others that were given: only, skip, allow, steps_planned
    seconds: float
    baseline: Profile
    noise: Noise
    trials: tuple[Trial, ...]
    winner: Winner | None
    summary: str  # the outcome in a sentence
    notes: tuple[str, ...] = ()
    baseline_runs: tuple[Run, ...] = ()
    complete: bool = True


def encode(tuning: Tuning) -> bytes:
    return records.encode_any(tuning)


def decode(text: bytes, *, source: str = "the tuning") -> Tuning:
    content = records.parse(text, source=source, newest=SCHEMA)
    return records.fitted(content, Tuning, source=source)


def load(path: str | os.PathLike[str]) -> Tuning:
    """Reads a saved tuning: the file `--json` wrote, or a run's folder."""
    file = Path(path)
    if file.is_dir():
        file = file / FILE
    return decode(records.read(file), source=str(file))


def save(tuning: Tuning, path: str | os.PathLike[str]) -> None:
    records.write(encode(tuning), Path(path))
