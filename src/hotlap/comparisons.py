"""What differs between two results of one kind, as frozen records."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from hotlap import records
from hotlap.tunings import Guard, Speedup

SCHEMA = 1

# What became of a figure. Where nothing is known of its noise, it has no such word.
FASTER, SLOWER = "faster", "slower"  # of times and rates
SMALLER, LARGER = "smaller", "larger"  # of bytes
HIGHER, LOWER = "higher", "lower"  # of all else
SAME = "no difference"
DIFFERENT = "different"  # of rows of a study, of which some went one way and some another
OUTCOMES = (FASTER, SLOWER, SMALLER, LARGER, HIGHER, LOWER, SAME, DIFFERENT)

# What became of a finding.
GONE, NEW, STILL = "gone", "new", "still there"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two."""

    source: str
    created: str
    hotlap: str
    command: str
    machine: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number, before and after."""

    name: str
    group: str
    unit: str  # as in the columns of a study: seconds, bytes, rate, ...
    before: float | None
    after: float | None
    ratio: Speedup | None = None  # after over before; only where its noise is known
    outcome: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is set in another way: a version, a flag, the workers of a loader."""

    name: str
    before: str
    after: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of one of them, or of both."""

    rule: str
    status: str
    summary: str
    file: str | None = None
    line: int | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    schema: int
    hotlap: str
    kind: str  # profile, tuning or study
    created: str
    before: Side
    after: Side
    summary: str
    outcome: str  # of the step; with what they found, of tunings; of all rows, of studies
    column: str = ""  # of a study: the group of figures that the summary tells of
    figures: tuple[Figure, ...]
    changes: tuple[Change, ...] = ()
    findings: tuple[Seen, ...] = ()
    guard: Guard | None = None
    notes: tuple[str, ...] = ()

    def figure(self, name: str, group: str | None = None) -> Figure | None:
        """The first of that name."""
        return next(
            (one for one in self.figures if one.name == name and group in (None, one.group)), None
        )


def encode(comparison: Comparison) -> bytes:
    return records.encode_any(comparison)


def decode(text: bytes, *, source: str = "the comparison") -> Comparison:
    content = records.parse(text, source=source, newest=SCHEMA)
    return records.fitted(content, Comparison, source=source)


def save(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    records.write(encode(comparison), Path(path))
