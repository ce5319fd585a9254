"""Finished runs of a tuning, one line each, so that an interrupted one can go on where it was."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from pathlib import Path

import msgspec

from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.tunings import Run

FILE = "journal.jsonl"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    recipe: str  # its key
    full: bool  # with phases and kernels
    run: Run
    profile: Profile | None = None


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: defaultdict[tuple[str, bool], deque[Line]] = defaultdict(deque)
        self.known = 0

    def read(self) -> None:
        """Takes up what was finished; a last line that was cut off is left out."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return
        for text in lines:
            try:
                line = msgspec.json.decode(text, type=Line)
            except msgspec.DecodeError:
                continue
            self._waiting[(line.recipe, line.full)].append(line)
            self.known += 1

    def has(self, recipe: Recipe, *, full: bool) -> bool:
        return bool(self._waiting[(recipe.key, full)])

    def take(self, recipe: Recipe, *, full: bool) -> Line | None:
        """The next finished run of this recipe that has not been used yet."""
        waiting = self._waiting[(recipe.key, full)]
        return waiting.popleft() if waiting else None

    def add(self, recipe: Recipe, run: Run, *, full: bool, profile: Profile | None = None) -> None:
        line = Line(recipe=recipe.key, full=full, run=run, profile=profile)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
