"""The search: a bundle of what promises most, then one by one on top of the best, then without.

1. The baseline is run again and again enough to know its noise.
2. Everything that promises a good part of the step is tried together: one run tells whether the
   diagnosis was right. If the bundle fails or changes the loss, its parts are tried one by one.
3. What is left is tried on top of the best recipe so far, in the order of a new diagnosis.
4. Each change is taken out again: what does not contribute is dropped.
5. Baseline and winner run in turns once more; their ratio is the result.

A candidate gets one run to show that it is hopeless; only a promising one gets more, in turns with
what it is compared with (reference, candidate, candidate, reference).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hotlap import optimizations
from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import comparing, guarding, rows
from hotlap.search.comparing import Spread
from hotlap.search.planning import Candidate, Choice, Plan, bundled, plan
from hotlap.tunings import (
    CHANGED,
    FASTER,
    NOT_APPLICABLE,
    SAME,
    SKIPPED,
    SLOWER,
    SMALLER,
    UNPROVEN,
    Guard,
    Part,
    Run,
    Speedup,
    Trial,
    Winner,
)

MOST_RUNS = 4  # of one recipe, to decide about it
FINAL_RUNS = 3  # of the winner and the baseline, at least
WORTH_KEEPING = 1.02  # a change that is not proven and contributes less is left out
WORTH_MORE_RUNS = 1.01
SMALLER_BY = 1.02
SLOWEST_FOR_MEMORY = 1.5


class Machine(Protocol):
    """Runs trials. The real one starts processes; tests have one that only does arithmetic."""

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run: ...

    def profile(self, recipe: Recipe, *, limit: float) -> tuple[Run, Profile | None]: ...

    def clock(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Request:
    choice: Choice
    budget: float
    steps_planned: int | None = None


@dataclass(kw_only=True)
class Found:
    """What the search knows so far; kept when it is interrupted."""

    trials: list[Trial]
    winner: Winner | None = None
    spread: Spread | None = None


class OutOfBudget(Exception):
    pass


class Tuner:
    def __init__(
        self,
        machine: Machine,
        baseline: Profile,
        first: Run,
        request: Request,
        *,
        tell: Callable[[Trial], None] = lambda trial: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._machine = machine
        self._request = request
        self._tell = tell
        self._say = say
        self._began = machine.clock()
        self._baseline = Recipe()
        self._diagnosis = baseline
        self._latest: tuple[Recipe, Profile] = (self._baseline, baseline)
        self._runs: dict[str, list[Run]] = {self._baseline.key: [first]}
        self._best = self._baseline
        self._refused: tuple[Trial, ...] = ()
        self._guards: dict[str, Guard] = {}
        self._cold: dict[str, float] = {}  # how long starts took that had to compile
        self.found = Found(trials=[])

    # Running ---------------------------------------------------------------------------------

    def runs(self, recipe: Recipe) -> list[Run]:
        return self._runs.setdefault(recipe.key, [])

    def spread(self) -> Spread:
        found = comparing.spread(list(self._runs.values()))
        self.found.spread = found
        return found

    def left(self) -> float:
        return self._request.budget - (self._machine.clock() - self._began)

    def _afford(self, recipe: Recipe, *, reserve: float = 0.0) -> None:
        """Raises unless a run of this recipe fits into what is left of the budget."""
        known = [run.seconds for run in self.runs(recipe)] or [
            run.seconds for run in self._runs[self._baseline.key]
        ]
        if self.left() < min(known) + reserve:
            raise OutOfBudget

    def _run(self, recipe: Recipe, *, reserve: float = 0.0) -> Run:
        self._afford(recipe, reserve=reserve)
        run = self._machine.run(recipe, limit=max(30.0, self.left()), seed=self._seed(recipe))
        self.runs(recipe).append(run)
        if run.cold and run.start_seconds is not None:
            self._cold.setdefault(recipe.compiled, run.start_seconds)
        return run

    def _seed(self, recipe: Recipe) -> int:
        """Every other run of the baseline has its own random numbers: the guard's band."""
        number = len(self.runs(recipe))
        return number if recipe == self._baseline and number % 2 else 0

    def _reserve(self) -> float:
        """For the last comparison of winner and baseline."""
        baseline = min(run.seconds for run in self._runs[self._baseline.key])
        return baseline + min((run.seconds for run in self.runs(self._best)), default=baseline)

    # Searching -------------------------------------------------------------------------------

    def tune(self) -> Found:
        try:
            self._noise()
            first = self._plan()
            self._refused = first.refused
            self._try_bundle(first)
            self._try_singles(first)
            self._leave_one_out()
        except OutOfBudget:
            self._say("The budget is spent; what was not tried is marked so.")
        try:
            self._finish()
        except OutOfBudget:
            self._conclude()
        self._add_refused()
        return self.found

    def _add_refused(self) -> None:
        """Why the rest was not tried; what came to apply later on has a row of its own by now."""
        tried = {trial.name.split()[0] for trial in self.found.trials}
        tried |= {name for trial in self.found.trials for name in trial.recipe}
        for row in self._refused:
            if row.name not in tried:
                self._add(row)

    def _noise(self) -> None:
        """Two runs of the baseline always; a third where they do not agree."""
        self._run(self._baseline)
        seen = comparing.costs(self.runs(self._baseline))
        if not seen or max(seen) > 1.05 * min(seen):
            self._run(self._baseline)

    def _plan(self) -> Plan:
        latest = self._latest[1]
        return plan(
            self._diagnosis,
            latest.verdict,
            self._request.choice,
            latest=latest if latest is not self._diagnosis else None,
        )

    def _try_bundle(self, first: Plan) -> None:
        chosen = bundled(first)
        if len(chosen) < 2 or self._request.choice.goal == "memory":
            return
        recipe = self._baseline
        for candidate in reversed(chosen):  # so that on a conflict the most promising stays
            recipe = recipe.having(candidate.name, candidate.settings)
        trial = self._attempt("everything promising", recipe, self._baseline)
        if trial.status == CHANGED:
            self._without_precision(recipe)
        if self._best and not trial.kept and trial.status != CHANGED:
            return
        if self._best:
            self._diagnose_again()

    def _without_precision(self, recipe: Recipe) -> None:
        """The loss changed: lower precision is the first suspect, and the rest may well be fine."""
        rest = recipe
        for name in ("precision-bf16", "precision-fp16", "tf32"):
            rest = rest.without(name)
        if rest and rest != recipe:
            self._attempt("everything but precision", rest, self._baseline)

    def _diagnose_again(self) -> None:
        self._afford(self._best, reserve=self._reserve())
        run, profile = self._machine.profile(self._best, limit=max(30.0, self.left()))
        self.runs(self._best).append(run)
        if profile is not None:
            self._latest = (self._best, profile)

    def _try_singles(self, first: Plan) -> None:
        """Each remaining candidate on top of the best; planned anew when the best has changed."""
        tried: set[str] = set()
        current = self._plan() if self._best else first
        while True:
            waiting = [one for one in current.candidates if self._is_open(one, tried)]
            if not waiting:
                break
            candidate = waiting[0]
            tried.add(candidate.label)
            recipe = self._best.having(candidate.name, candidate.settings)
            if self.runs(recipe):
                continue  # it was seen as part of something else
            try:
                trial = self._attempt(candidate.label, recipe, self._best, of=candidate.name)
            except OutOfBudget:
                self._skip([candidate, *waiting[1:]])
                raise
            if trial.kept and self._worth_a_look(trial):
                self._diagnose_again()
                current = self._plan()

    def _worth_a_look(self, trial: Trial) -> bool:
        """A large gain may have moved the bottleneck."""
        return trial.speedup is not None and trial.speedup.ratio > 1.15

    def _is_open(self, candidate: Candidate, tried: set[str]) -> bool:
        if candidate.label in tried:
            return False
        return self._best.changes.get(candidate.name) != candidate.settings

    def _skip(self, candidates: list[Candidate]) -> None:
        for candidate in candidates:
            self._add(
                Trial(
                    name=candidate.label,
                    recipe={},
                    status=SKIPPED,
                    reason="the budget is spent; allow more with --budget",
                )
            )

    def _attempt(self, name: str, recipe: Recipe, reference: Recipe, *, of: str = "") -> Trial:
        """One run to see whether it is hopeless; more, in turns, while it is promising."""
        run = self._run(recipe, reserve=self._reserve())
        if run.status is not None:
            return self._add(rows.failed(name, recipe, run, against=reference.label()))
        refused = run.refused.get(of)
        if refused is not None:
            return self._add(
                rows.row(name, recipe, NOT_APPLICABLE, refused, [run], against=reference.label())
            )
        while True:
            guard = self._guard(recipe)
            ratio = comparing.speedup(self.runs(reference), self.runs(recipe), self.spread())
            if ratio is None or guard.status == guarding.CHANGED or not self._undecided(ratio):
                break
            if len(self.runs(recipe)) >= MOST_RUNS:
                break
            try:
                self._in_turn(reference, recipe)
            except OutOfBudget:
                break
            if self.runs(recipe)[-1].status is not None:
                return self._add(
                    rows.failed(name, recipe, self.runs(recipe)[-1], against=reference.label())
                )
        return self._judge(name, recipe, reference, ratio, guard)

    def _in_turn(self, reference: Recipe, candidate: Recipe) -> None:
        """Both once more, each time in the other order: candidate, reference, reference, ..."""
        order = [reference, candidate]
        if len(self.runs(candidate)) % 2:
            order.reverse()
        for one in order:
            self._run(one, reserve=self._reserve())

    def _undecided(self, ratio: Speedup) -> bool:
        if self._request.choice.goal == "memory":
            return False
        if ratio.ratio < WORTH_MORE_RUNS or ratio.high < 1.0:
            return False  # hopeless: even if it were faster it would not be by much
        return not ratio.low > 1.0

    def _guard(self, recipe: Recipe) -> Guard:
        plain = [run for run in self.runs(self._baseline) if run.status is None]
        guard = guarding.check(
            [run.losses for run in plain if not run.seed],
            [run.losses for run in self.runs(recipe) if run.status is None],
            [run.losses for run in plain if run.seed],
        )
        if guard.status == guarding.CHANGED and self._changes_on_purpose(recipe):
            guard = Guard(status=guarding.PASSED, reason="changes what is learned, as allowed")
        self._guards[recipe.key] = guard
        return guard

    def _changes_on_purpose(self, recipe: Recipe) -> bool:
        return any(optimizations.named(name).NUMERICS == "changes" for name in recipe.changes)

    def _judge(
        self, name: str, recipe: Recipe, reference: Recipe, ratio: Speedup | None, guard: Guard
    ) -> Trial:
        status, reason = SAME, ""
        if guard.status == guarding.CHANGED:
            status, reason = CHANGED, guard.reason
        elif self._request.choice.goal == "memory":
            status, reason = self._by_memory(recipe, reference)
        elif ratio is not None and ratio.low > 1.0:
            status, reason = self._by_total(recipe, reference)
        elif ratio is not None and ratio.high < 1.0:
            status = SLOWER
        if status in (FASTER, SMALLER) and not self._proven(recipe, reference, guard):
            status, reason = UNPROVEN, guard.reason
        kept = status in (FASTER, SMALLER)
        trial = rows.compared(
            name,
            recipe,
            status,
            reason,
            self.runs(recipe),
            against=reference.label(),
            speedup=ratio,
            overall=comparing.speedup(self.runs(self._baseline), self.runs(recipe), self.spread()),
            guard=guard,
            baseline=self.runs(self._baseline),
            cold=self._cold.get(recipe.compiled),
            kept=kept,
        )
        if kept:
            self._best = recipe
        return self._add(trial)

    def _proven(self, recipe: Recipe, reference: Recipe, guard: Guard) -> bool:
        """Same arithmetic needs no proof; anything else needs a guard that could tell."""
        if guard.status == guarding.PASSED:
            return True
        added = [name for name in recipe.changes if name not in reference.changes]
        return all(optimizations.named(name).NUMERICS == "identical" for name in added)

    def _by_total(self, recipe: Recipe, reference: Recipe) -> tuple[str, str]:
        """With --steps-planned the start counts as well: compiling has to pay."""
        planned = self._request.steps_planned
        if planned is None:
            return FASTER, ""
        ours, theirs = (
            rows.total_seconds(self.runs(one), planned, self._cold.get(one.compiled))
            for one in (recipe, reference)
        )
        if ours is None or theirs is None or ours < theirs:
            return FASTER, ""
        return SAME, f"faster steps, but its start does not pay within {planned:,} steps"

    def _by_memory(self, recipe: Recipe, reference: Recipe) -> tuple[str, str]:
        ours, theirs = rows.peak(self.runs(recipe)), rows.peak(self.runs(reference))
        if not ours or not theirs:
            return SAME, "peak memory was not seen"
        slow = comparing.speedup(self.runs(reference), self.runs(recipe), self.spread())
        if theirs / ours < SMALLER_BY:
            return SAME, ""
        if slow is not None and slow.ratio < 1 / SLOWEST_FOR_MEMORY:
            return SLOWER, "saves memory, but is more than 1.5 times slower"
        return SMALLER, ""

    # Concluding ------------------------------------------------------------------------------

    def _leave_one_out(self) -> None:
        """What each change of the best contributes; one that does not is dropped."""
        if len(self._best.changes) < 2 or self._request.choice.goal == "memory":
            return
        for name in self._least_promising_first():
            if name not in self._best.changes or len(self._best.changes) < 2:
                continue
            rest = self._best.without(name)
            if not self.runs(rest):
                self._run(rest, reserve=self._reserve())
            gain = self._contribution(rest)
            if gain is not None and not gain.low > 1.0 and len(self.runs(rest)) < MOST_RUNS:
                with contextlib.suppress(OutOfBudget):
                    self._in_turn(self._best, rest)
                gain = self._contribution(rest)
            dropped = gain is not None and not self._contributes(name, gain)
            runs = self.runs(rest)
            if runs[-1].status is not None:
                self._add(rows.failed(f"without {name}", rest, runs[-1], against="the best so far"))
                continue
            back = comparing.speedup(self.runs(self._best), runs, self.spread())
            status = SLOWER if gain is not None and gain.low > 1.0 else SAME
            self._add(
                rows.compared(
                    f"without {name}",
                    rest,
                    status,
                    f"{name} adds nothing and is left out" if dropped else "",
                    runs,
                    against="the best so far",
                    speedup=back,
                    overall=comparing.speedup(self.runs(self._baseline), runs, self.spread()),
                    guard=self._guard(rest),
                    baseline=self.runs(self._baseline),
                    cold=self._cold.get(rest.compiled),
                    kept=dropped,
                )
            )
            if dropped and self._guards[rest.key].status != guarding.CHANGED:
                self._best = rest

    def _least_promising_first(self) -> list[str]:
        promises = {
            name: optimizations.named(name).promise(self._diagnosis, self._diagnosis.verdict)
            for name in self._best.changes
        }
        return sorted(promises, key=lambda name: promises[name])

    def _contributes(self, name: str, gain: Speedup) -> bool:
        """Proven; or likely, and free: compiling costs, so it has to be proven."""
        return gain.low > 1.0 or (gain.ratio >= WORTH_KEEPING and name != "compile")

    def _contribution(self, rest: Recipe) -> Speedup | None:
        return comparing.speedup(self.runs(rest), self.runs(self._best), self.spread())

    def _finish(self) -> None:
        """Baseline and winner in turns until both have enough runs; then the winner's phases."""
        while self._best:
            pair = (self._baseline, self._best)
            short = [one for one in pair if len(self.runs(one)) < FINAL_RUNS]
            if not short:
                break
            for one in short:
                self._run(one)
        if self._best and self._latest[0] != self._best:
            run, profile = self._machine.profile(self._best, limit=max(30.0, self.left()))
            if run.status is None:
                self.runs(self._best).append(run)
            if profile is not None:
                self._latest = (self._best, profile)
        self._conclude()

    def _conclude(self) -> None:
        if not self._best:
            return
        baseline, runs = self.runs(self._baseline), self.runs(self._best)
        ratio = comparing.speedup(baseline, runs, self.spread())
        guard = self._guard(self._best)
        faster = ratio is not None and ratio.low > 1.0
        wanted = faster or self._request.choice.goal == "memory"
        if ratio is None or not wanted or guard.status == guarding.CHANGED:
            return
        cold = self._cold.get(self._best.compiled)
        start = rows.more_start(runs, baseline, cold)
        step, before = rows.step(runs), rows.step(baseline)
        if step is None or before is None:
            return
        self.found.winner = Winner(
            recipe=dict(self._best.changes),
            speedup=ratio,
            guard=guard,
            parts=tuple(self._part(name) for name in self._best.changes),
            step_seconds=step,
            baseline_seconds=before,
            samples_per_second=rows.rate(runs),
            peak_bytes=rows.peak(runs),
            baseline_peak_bytes=rows.peak(baseline),
            start_seconds=start,
            break_even_steps=rows.break_even(runs, baseline, cold),
            profile=self._latest[1] if self._latest[0] == self._best else None,
        )

    def _part(self, name: str) -> Part:
        one = optimizations.named(name)
        settings = dict(self._best.changes[name])
        rest = self._best.without(name)
        alone = len(self._best.changes) == 1
        gain = self._contribution(rest if not alone else self._baseline)
        more = set(self._best.changes) - set(rest.changes) - {name}
        note = f"together with {', '.join(sorted(more))}" if more else ""
        if gain is None:
            note = "not measured by itself: the budget was spent"
        elif not gain.low > 1.0:
            note = (note + ", " if note else "") + "within the noise"
        return Part(
            name=name,
            settings=settings,
            numerics=one.NUMERICS,
            by_hand=one.by_hand(settings),
            speedup=gain,
            note=note,
        )

    def _add(self, trial: Trial) -> Trial:
        self.found.trials.append(trial)
        self._tell(trial)
        return trial
