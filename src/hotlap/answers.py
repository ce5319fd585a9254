"""What a study found, as frozen records: the cells it ran, the rows they make, what they say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from hotlap import records

SCHEMA = 1
FILE = "study.json"

# How a cell ended, and a row of which no cell went well.
MEASURED = "measured"
FAILED = "failed"
OUT_OF_MEMORY = "out of memory"
TIMED_OUT = "timed out"
SKIPPED = "skipped"  # it cannot be asked here: no GPU, too few cores
NOT_RUN = "not run"  # the study was stopped before it
SET_ASIDE = "set aside"  # only of cells: others disturbed it, it was run twice, the other counts
STATUSES = (MEASURED, FAILED, OUT_OF_MEMORY, TIMED_OUT, SKIPPED, NOT_RUN, SET_ASIDE)

Value = float | str | None


class Cell(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One run in a fresh process. `row` says which row of the table it counts for."""

    row: str
    run: int = 0
    limit_seconds: float = 600.0
    variables: dict[str, str] = {}
    skip: str = ""


class Timed(Cell, frozen=True, kw_only=True, tag="timed"):
    """A training command under watch: steps are timed until they agree, then it is stopped."""

    words: tuple[str, ...]
    recipe: dict[str, dict[str, Any]] = {}
    seconds: float = 3.0
    window_seconds: float = 0.4
    phases: bool = False


class Trained(Cell, frozen=True, kw_only=True, tag="trained"):
    """A workload that runs to its end; its own figures are read (`--log`)."""

    words: tuple[str, ...]
    recipe: dict[str, dict[str, Any]] = {}


class Called(Cell, frozen=True, kw_only=True, tag="called"):
    """A function of ours, with arguments and an answer that are JSON."""

    function: str
    arguments: dict[str, Any] = {}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that was run, and what came of it."""

    cell: Timed | Trained | Called
    status: str
    reason: str = ""
    seconds: float = 0.0
    folder: str = ""
    figures: dict[str, Any] = {}
    disturbed: bool = False  # others burned clearly more cores than during the quietest, or: busy
    busy: bool = False  # others burned a good part of all cores, whatever the other runs are

    @property
    def good(self) -> bool:
        return self.status == MEASURED


class Column(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    unit: str = ""  # seconds, bytes, rate, share, accuracy, ratio, number, decimal, or none
    interval: bool = False  # whether a terminal shows one
    spare: bool = False  # whether it goes first where a terminal is narrow


class Row(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    values: dict[str, Value] = {}
    intervals: dict[str, tuple[float, float]] = {}
    status: str = MEASURED
    reason: str = ""
    best: bool = False
    runs: int = 0

    @property
    def good(self) -> bool:
        return self.status == MEASURED

    def number(self, column: str) -> float | None:
        value = self.values.get(column)
        return value if isinstance(value, (int, float)) else None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    log: bool = False
    unit: str = ""  # bytes are shown as MiB, a share in per cent


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be drawn, as data: a report decides how."""

    kind: str  # lines, bands, bars, stacked
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    words: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    schema: int
    hotlap: str
    study: str
    question: str
    created: str
    folder: str
    options: dict[str, Any]
    machine: dict[str, Any]
    seconds: float
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    reading: str
    pictures: tuple[Picture, ...] = ()
    cells: tuple[Done, ...] = ()
    complete: bool = True

    @property
    def best(self) -> Row | None:
        return next((row for row in self.rows if row.best), None)


def encode(answer: Answer) -> bytes:
    return records.encode_any(answer)


def decode(text: bytes, *, source: str = "the study") -> Answer:
    content = records.parse(text, source=source, newest=SCHEMA)
    return records.fitted(content, Answer, source=source)


def load(path: str | os.PathLike[str]) -> Answer:
    """Reads a saved study: the file `--json` wrote, or a run's folder."""
    file = Path(path)
    if file.is_dir():
        file = file / FILE
    return decode(records.read(file), source=str(file))


def save(answer: Answer, path: str | os.PathLike[str]) -> None:
    records.write(encode(answer), Path(path))
