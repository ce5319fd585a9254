"""The machine a tuning runs on: real trials, with a journal of what is finished."""

from __future__ import annotations

from hotlap.api.profiling import conclude
from hotlap.errors import Interrupted
from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.trials.folder import RunFolder, TrialFolder
from hotlap.trials.journal import Journal
from hotlap.trials.measuring import LocalMachine, Measured
from hotlap.tunings import Run


class Watched:
    def __init__(
        self, local: LocalMachine, journal: Journal, words: list[str], run: RunFolder
    ) -> None:
        self._local = local
        self._journal = journal
        self._words = words
        self._run = run
        self.last: Measured | None = None

    @property
    def folder(self) -> TrialFolder:
        return self._local.last

    def clock(self) -> float:
        return self._local.clock()

    def knows(self, recipe: Recipe, *, full: bool) -> bool:
        return self._journal.has(recipe, full=full)

    def fills(self, recipe: Recipe) -> bool:
        return self._local.fills(recipe)

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        known = self._journal.take(recipe, full=False)
        if known is not None:
            return known.run
        run, measured = self._local.timed(recipe, limit=limit, seed=seed)
        self._interrupted(measured)
        self._journal.add(recipe, run, full=False)
        return run

    def profile(self, recipe: Recipe, *, limit: float) -> tuple[Run, Profile | None]:
        known = self._journal.take(recipe, full=True)
        if known is not None:
            return known.run, known.profile
        run, measured = self._local.full(recipe, limit=limit)
        self.last = measured
        profile = None
        if measured.record is not None:
            profile = conclude(measured.record, self._words, self._run)
        self._interrupted(measured)
        self._journal.add(recipe, run, full=True, profile=profile)
        return run, profile

    def _interrupted(self, measured: Measured) -> None:
        if measured.outcome.stopped == "interrupted":
            raise Interrupted("Interrupted.")
