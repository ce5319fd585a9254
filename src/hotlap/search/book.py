"""What has been run so far and what it comes to: runs by recipe, noise, guard, budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from hotlap import optimizations
from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import comparing, endings, guarding, refusing
from hotlap.search.comparing import Figure, Spread
from hotlap.search.planning import Choice
from hotlap.tunings import TIMED_OUT, Guard, Run, Speedup

BASELINE = Recipe()
OTHERS_DISTURB_FROM = 0.15  # of the cores
MOST_REPEATS = 6  # of disturbed runs, in one tuning
REPEATS_SHARE = 0.2  # of what is left, at most, for each
LEAST_SECONDS = 30.0  # a trial that was started is given this long, whatever the budget
PATIENT_SECONDS = 120.0  # and this long for a next step: one that hangs must not take all there is
PATIENT_TIMES = 20.0  # what a whole run of the baseline takes


class Machine(Protocol):
    """Runs trials. The real one starts processes; tests have one that only does arithmetic."""

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run: ...

    def profile(self, recipe: Recipe, *, limit: float) -> tuple[Run, Profile | None]: ...

    def clock(self) -> float: ...

    def knows(self, recipe: Recipe, *, full: bool) -> bool:
        """Whether the next run of it is there already and costs nothing."""

    def fills(self, recipe: Recipe) -> bool:
        """Whether a cache of it is empty: its next run only fills that, and takes another one."""


@dataclass(frozen=True, kw_only=True)
class Request:
    choice: Choice
    budget: float
    steps_planned: int | None = None


class OutOfBudget(Exception):
    def __init__(self, needed: float, left: float) -> None:
        super().__init__(f"{needed:.0f} s are needed, {left:.0f} s are left")
        self.needed = needed
        self.left = left


class Book:
    def __init__(
        self,
        machine: Machine,
        first: Run,
        budget: float,
        *,
        cores: float = 1.0,
        memory: Figure = comparing.PROCESS_MEMORY,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._machine = machine
        self._budget = budget
        self._cores = cores
        self._memory = memory
        self._say = say
        self._repeats = 0
        self._began = machine.clock()
        self._runs: dict[str, list[Run]] = {BASELINE.key: [first]}
        self._again: set[str] = set()  # recipes that are looked at more often than others
        self._cold: dict[str, float] = {}  # how long starts took that had to compile

    def runs(self, recipe: Recipe) -> list[Run]:
        return self._runs.setdefault(recipe.key, [])

    def count(self, recipe: Recipe) -> int:
        """Its runs, but for those that only filled a cache."""
        return len(comparing.after_filling(self.runs(recipe)))

    def at_work(self, recipe: Recipe) -> Recipe:
        """What was: without parts that its last run refused. Its runs are those of the rest, too.

        But not where more is left out than was refused: that has not been run by itself.
        """
        runs = self.runs(recipe)
        if not runs or runs[-1].status is not None:
            return recipe
        ran = refusing.at_work(recipe, runs[-1])
        left_out = recipe.changes.keys() - ran.changes.keys()
        if not self.runs(ran) and left_out <= runs[-1].refused.keys():
            self.runs(ran).extend(runs)
        return ran

    def cold(self, recipe: Recipe) -> float | None:
        """Seconds its start took when the compiler's cache was empty; None if never compiled."""
        return self._cold.get(recipe.compiled)

    # Running ---------------------------------------------------------------------------------

    def left(self) -> float:
        return self._budget - (self._machine.clock() - self._began)

    def run(self, recipe: Recipe, *, reserve: float = 0.0) -> Run:
        """One more run; another one if it filled a cache, or if something else disturbed it.

        A tuning that goes on has the runs that filled caches before, and no longer those caches.
        """
        self._afford(recipe, reserve)
        run = self._once(recipe)
        while run.filling and run.status is None:
            self._afford(recipe, reserve)
            run = self._once(recipe)
        if run.disturbed and self._repeats < MOST_REPEATS:
            self._repeats += 1
            free = self._machine.knows(recipe, full=False)
            if free or self.left() > max(run.seconds + reserve, run.seconds / REPEATS_SHARE):
                run = self._once(recipe)
        return run

    def first(self, recipe: Recipe, *, reserve: float = 0.0) -> Run:
        """A run of it; the one that filled its cache, where the budget ends after that."""
        try:
            return self.run(recipe, reserve=reserve)
        except OutOfBudget:
            if self.count(recipe) or not self.runs(recipe):
                raise
            return self.runs(recipe)[-1]

    def _once(self, recipe: Recipe) -> Run:
        run = self._machine.run(recipe, limit=self._limit(recipe), seed=self._seed(recipe))
        return self._enter(recipe, run)

    def profile(self, recipe: Recipe, *, reserve: float = 0.0) -> Profile | None:
        """Its phases; those of a run that filled a cache are not its own."""
        while True:
            self._afford(recipe, reserve, full=True)
            run, profile = self._machine.profile(recipe, limit=self._limit(recipe))
            run = self._enter(recipe, run)
            if not run.filling or run.status is not None:
                return profile

    def in_turn(self, reference: Recipe, candidate: Recipe, *, reserve: float = 0.0) -> None:
        """Both once more, each time in the other order: candidate, reference, reference, ..."""
        order = [reference, candidate]
        if len(self.runs(candidate)) % 2:
            order.reverse()
        for one in order:
            self.run(one, reserve=reserve)

    def ask_more_of(self, candidate: Recipe) -> None:
        """It gets more looks than others, which are as many chances to be lucky."""
        self._again.add(candidate.key)

    def _accepted(self, candidate: Recipe) -> float:
        again = candidate.key in self._again
        return comparing.ACCEPTED_AGAIN if again else comparing.ACCEPTED

    def cheapest(self, recipe: Recipe) -> float:
        """Seconds a run of it takes at least, as far as is known."""
        plain = min(run.seconds for run in self.runs(BASELINE))
        known = [run.seconds for run in self.runs(recipe)]
        if any(not run.cold for run in self.runs(recipe)) or not known:
            return min(known or [plain])
        return (min(known) + plain) / 2  # the next one finds what was compiled

    def _afford(self, recipe: Recipe, reserve: float, *, full: bool = False) -> None:
        runs = 2 if self._machine.fills(recipe) else 1
        needed, left = runs * self.cheapest(recipe) + reserve, self.left()
        if left < needed and not self._machine.knows(recipe, full=full):
            raise OutOfBudget(needed, left)

    def _limit(self, recipe: Recipe) -> float:
        """Seconds without a step; a compiler may well need minutes for one."""
        left = max(LEAST_SECONDS, self.left())
        if recipe.compiled or recipe == BASELINE:
            return left
        longest = max(run.seconds for run in self.runs(BASELINE))
        return min(left, max(PATIENT_SECONDS, PATIENT_TIMES * longest))

    def _seed(self, recipe: Recipe) -> int:
        """Every other run of the baseline has its own random numbers: the guard's band."""
        number = len(self.runs(recipe))
        return number if recipe == BASELINE and number % 2 else 0

    def _enter(self, recipe: Recipe, run: Run) -> Run:
        if run.status == TIMED_OUT and self.left() <= 0:
            run = msgspec.structs.replace(run, reason=f"{run.reason}: the budget was spent")
        if recipe != BASELINE:
            run = endings.checked(run, self.runs(BASELINE))
        self.runs(recipe).append(run)
        self._mark_disturbed()
        run = self.runs(recipe)[-1]
        if run.disturbed and not self._repeats:
            self._say(
                f"Something else burned {run.other_cores:.1f} of {self._cores:g} cores during a "
                "run. Such runs are repeated and left out; a quiet machine gives narrower ranges."
            )
        if run.cold and run.start_seconds is not None:
            self._cold.setdefault(recipe.compiled, run.start_seconds)
        return run

    def _mark_disturbed(self) -> None:
        """Those during which others burned clearly more than in the quietest, before or after."""
        seen = [run.other_cores for runs in self._runs.values() for run in runs]
        quietest = min((one for one in seen if one is not None), default=0.0)
        most = quietest + OTHERS_DISTURB_FROM * self._cores
        for runs in self._runs.values():
            runs[:] = [
                msgspec.structs.replace(run, disturbed=(run.other_cores or 0.0) > most)
                for run in runs
            ]

    # Reading ---------------------------------------------------------------------------------

    def spread(self) -> Spread:
        """What runs differ by: as the quiet ones of the baseline do, where there are two."""
        known = self.runs(BASELINE)
        few = len(comparing.costs(known)) < 2
        disturbed = [run for run in known if run.disturbed] if few else known
        return comparing.spread_between(list(self._runs.values()), known, disturbed)

    def _pair(
        self, reference: Recipe, candidate: Recipe, figure: Figure = comparing.TIME
    ) -> tuple[list[Run], list[Run], Spread]:
        slow, fast = self.runs(reference), self.runs(candidate)
        noise = comparing.spread_between(list(self._runs.values()), slow, fast, figure)
        return slow, fast, noise

    def speedup(
        self, reference: Recipe, candidate: Recipe, *, since: tuple[int, int] = (0, 0)
    ) -> Speedup | None:
        """With `since`, without so many of the first runs of each."""
        slow, fast, noise = self._pair(reference, candidate)
        return comparing.speedup(slow[since[0] :], fast[since[1] :], noise)

    def compared(self, reference: Recipe, candidate: Recipe) -> tuple[list[Run], list[Run]]:
        """The runs their ratio comes from."""
        return comparing.comparable(self.runs(reference), self.runs(candidate))

    def proves(self, reference: Recipe, candidate: Recipe) -> bool:
        return comparing.proven(*self._pair(reference, candidate), q=self._accepted(candidate))

    def may_prove(
        self,
        reference: Recipe,
        candidate: Recipe,
        *,
        most: int,
        promise: float | None,
        hopefully: bool = True,
    ) -> bool:
        pair = self._pair(reference, candidate)
        q = self._accepted(candidate)
        return comparing.may_be_proven(*pair, most=most, promise=promise, q=q, hopefully=hopefully)

    def spread_of_peaks(self) -> Spread:
        return comparing.spread(list(self._runs.values()), self._memory)

    def shrinkage(self, reference: Recipe, candidate: Recipe) -> Speedup | None:
        """The reference's memory at the peak over the candidate's."""
        return comparing.speedup(
            *self._pair(reference, candidate, self._memory), figure=self._memory
        )

    def proves_smaller(self, reference: Recipe, candidate: Recipe) -> bool:
        return comparing.proven(
            *self._pair(reference, candidate, self._memory), figure=self._memory
        )

    def guard(self, recipe: Recipe, reference: Recipe = BASELINE) -> Guard:
        """Whether it learns as it should. A loss that is no number is refused, allowed or not."""
        like = self.like(recipe, reference)
        plain = [run for run in self.runs(like) if run.status is None]
        found = guarding.check(
            [run.losses for run in plain if not run.seed],
            [run.losses for run in self.runs(recipe) if run.status is None],
            [run.losses for run in plain if run.seed],
        )
        is_number = found.status == guarding.UNCLEAR or found.difference is not None
        if like == BASELINE and _on_purpose(recipe) and is_number:
            return Guard(status=guarding.PASSED, reason="changes what is learned, as allowed")
        return found

    def like(self, recipe: Recipe, reference: Recipe) -> Recipe:
        """What it should learn like: the baseline; the reference, if both change it on purpose."""
        purpose = _on_purpose(recipe)
        return reference if purpose and purpose == _on_purpose(reference) else BASELINE


def _on_purpose(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The changes that are there to change what is learned."""
    return {
        name: settings
        for name, settings in recipe.changes.items()
        if optimizations.named(name).NUMERICS == "changes"
    }
