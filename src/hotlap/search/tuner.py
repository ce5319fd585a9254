"""The search: a bundle of what promises most, then one by one on top of the best, then without.

1. The baseline is run again, until its noise is known.
2. Everything that promises a good part of the step is tried together: one run tells whether the
   diagnosis was right. Then the best so far is diagnosed anew, and so on. If a bundle fails or
   changes the loss, its parts are tried one by one.
3. What is left and promises something is tried on top of the best recipe so far, one by one.
4. Each change is taken out again: what does not contribute is dropped.
5. With budget to spare, what promises little gets its chance.
6. What still seems better than the best, and was not proven, is run again.
7. Baseline and winner run in turns once more; their ratio is the result.

A candidate gets one run to show that it is hopeless; only a promising one gets more, in turns with
what it is compared with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from hotlap.recipes import Recipe
from hotlap.records import Profile
from hotlap.search import comparing, concluding, guarding, judging, planning, refusing, rest, rows
from hotlap.search.book import BASELINE, Book, Machine, OutOfBudget, Request
from hotlap.search.comparing import Spread
from hotlap.search.planning import WORTH_BUNDLING, Candidate, Plan, bundled, plan
from hotlap.tunings import CHANGED, SAME, SLOWER, UNPROVEN, Guard, Run, Speedup, Trial, Winner

MOST_BUNDLES = 3
FINAL_RUNS = 3  # of the winner and the baseline, at least
AGREE_WITHIN = 1.05  # two runs of the baseline; else a third is made
MOVES_THE_BOTTLENECK = 1.15


@dataclass(kw_only=True)
class Found:
    """What the search knows so far; kept when it is interrupted."""

    trials: list[Trial]
    spread: Spread
    winner: Winner | None = None
    spent: bool = False  # the budget: more runs were wanted than it had room for


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
        self._request = request
        self._tell = tell
        self._say = say
        cores = float(baseline.environment.get("cores") or 1)
        on_device = baseline.memory.kind == "device"
        memory = comparing.DEVICE_MEMORY if on_device else comparing.PROCESS_MEMORY
        self._book = Book(machine, first, request.budget, cores=cores, memory=memory, say=say)
        self._diagnosis = baseline
        self._latest: tuple[Recipe, Profile] = (BASELINE, baseline)
        self._best = BASELINE
        self._bests: list[Recipe] = []  # one after the other
        self._plan = Plan(candidates=(), refused=())
        self._refused: tuple[Trial, ...] = ()
        self._tried: set[str] = set()
        self._gains: dict[str, Speedup] = {}  # by name, as measured when it was left out
        self._trials: list[Trial] = []
        self._winner: Winner | None = None
        self._spent = False

    @property
    def found(self) -> Found:
        spread = self._book.spread()
        return Found(trials=self._trials, winner=self._winner, spread=spread, spent=self._spent)

    def baseline_runs(self) -> list[Run]:
        return self._book.runs(BASELINE)

    def tune(self) -> Found:
        stages: tuple[Callable[[], None], ...] = (
            self._learn_the_noise,
            self._try_bundles,
            lambda: self._try_singles(least=WORTH_BUNDLING),
            self._leave_one_out,
            self._try_singles,
            self._leave_one_out,
            self._look_again,
            self._leave_one_out,
        )
        short = None
        for stage in stages:  # one that does not fit any more leaves room for the next
            try:
                stage()
            except OutOfBudget as problem:
                short = problem
        if short is not None:
            self._spent = True
            self._say(
                f"The budget allows no further try: {max(0.0, short.left):.0f} s are left, and one "
                f"with the last comparison takes about {short.needed:.0f} s. What was not tried is "
                "marked so."
            )
        with contextlib.suppress(OutOfBudget):
            self._run_the_last_ones()
        if self._best and (run := judging.died(self._book.runs(self._best))):
            self._add(rows.failed(concluding.AGAIN, self._best, run, against=BASELINE.label()))
        else:
            self._fall_back()
        self._winner = concluding.winner(
            self._book,
            self._best,
            self._gains,
            goal=self._request.choice.goal,
            profile=self._latest[1] if self._latest[0] == self._best else None,
        )
        self._add_the_rest()
        return self.found

    def _learn_the_noise(self) -> None:
        self._plan_again()
        self._refused = self._plan.refused
        run = self._book.run(BASELINE)
        if run.status is not None:
            self._say(f"The command by itself does not always run: {run.status}, {run.reason}.")
        seen = comparing.costs(self._book.runs(BASELINE))
        if len(seen) < 2 or max(seen) > AGREE_WITHIN * min(seen):
            self._book.run(BASELINE)

    def _plan_again(self) -> None:
        latest = self._latest[1]
        self._plan = plan(
            self._diagnosis,
            latest.verdict,
            self._request.choice,
            latest=latest if latest is not self._diagnosis else None,
        )

    def _reserve(self) -> float:
        """For the last runs of winner and baseline, and for leaving out each part once."""
        parts = len(self._best.changes) - len(self._gains)
        leaving = max(0, parts) * self._book.cheapest(self._best) if parts > 1 else 0.0
        return self._last() + leaving

    def _last(self) -> float:
        """For the last comparison: two runs that agree by chance have proven much too much."""
        return sum(
            max(1, FINAL_RUNS - self._book.count(one)) * self._book.cheapest(one)
            for one in (BASELINE, self._best)
        )

    # Trying ----------------------------------------------------------------------------------

    def _try_bundles(self) -> None:
        """Each round has the bottleneck of the one before out of its way."""
        for _ in range(MOST_BUNDLES):
            chosen = bundled([one for one in self._plan.candidates if self._is_new(one)])
            before = self._best
            if len(chosen) < 2 or self._request.choice.goal == "memory":
                return
            recipe = before
            for candidate in reversed(chosen):  # so that on a conflict the most promising stays
                recipe = candidate.on(recipe)
            name = "everything promising" if not before else "everything promising now"
            trial = self._attempt(name, recipe, before)
            if trial.status == CHANGED:
                self._try_without_precision(Recipe(trial.recipe), before)
            if self._best == before:
                return
            self._diagnose_again()

    def _is_new(self, candidate: Candidate) -> bool:
        return self._is_open(candidate) and candidate.name not in self._best.changes

    def _try_without_precision(self, recipe: Recipe, before: Recipe) -> None:
        """The loss changed: lower precision is the first suspect, and the rest may well be fine."""
        rest = planning.without_precision(recipe)
        if rest not in (recipe, before):
            self._attempt("everything but precision", rest, before)

    def _diagnose_again(self) -> None:
        profile = self._book.profile(self._best, reserve=self._reserve())
        if profile is not None:
            self._latest = (self._best, profile)
            self._plan_again()

    def _try_singles(self, *, least: float = 0.0) -> None:
        """Each remaining candidate on top of the best; planned anew when the best has changed."""
        while waiting := [
            one for one in self._plan.candidates if self._is_open(one) and one.promise >= least
        ]:
            # Other settings of what is in the best come last: which is right depends on the rest.
            candidate = min(waiting, key=lambda one: one.name in self._best.changes)
            recipe = candidate.on(self._best)
            gained = None
            if not self._book.count(recipe):  # else it was seen as part of something else
                trial = self._attempt(candidate.label, recipe, self._best, of=candidate)
                gained = trial.speedup if trial.kept else None
            self._tried.add(candidate.label)
            if gained is not None and gained.ratio > MOVES_THE_BOTTLENECK:
                self._diagnose_again()

    def _is_open(self, candidate: Candidate) -> bool:
        if candidate.label in self._tried:
            return False
        return self._best.changes.get(candidate.name) != candidate.settings

    def _attempt(
        self, name: str, recipe: Recipe, reference: Recipe, *, of: Candidate | None = None
    ) -> Trial:
        """One run to see whether it is hopeless; more, in turns, while it is promising."""
        book = self._book
        run = book.first(recipe, reserve=self._reserve())
        self._spent = self._spent or not book.count(recipe)
        if run.status is not None:
            return self._add(rows.failed(name, recipe, run, against=reference.label()))
        ran = book.at_work(recipe)
        refused = [self._add(row) for row in refusing.refused(recipe, run, reference)]
        self._tried |= {row.name for row in refused}
        if refused and (ran in (BASELINE, reference) or (of and of.name not in ran.changes)):
            return refused[-1]
        if not book.runs(ran):
            return self._attempt(name, ran, reference, of=of)
        return self._decide(name, ran, reference, promise=of.promise if of else None)

    def _decide(
        self,
        name: str,
        recipe: Recipe,
        reference: Recipe,
        *,
        promise: float | None = None,
        since: tuple[int, int] | None = None,
    ) -> Trial:
        """More runs, in turns, until they say what it is, or that they will not.

        `since` is how many runs of both there were before another look.
        """
        book = self._book
        while True:
            guard = book.guard(recipe, reference)
            doubted = guard.status == guarding.CHANGED and not self._stands(guard, recipe)
            case = (book, recipe, reference, self._request.choice.goal)
            hopeless = judging.is_hopeless(*case, promise=promise, since=since)
            proven = judging.is_proven(*case)
            if doubted and hopeless and not proven:  # nobody will look again
                guard, doubted = guarding.unclear(guard), False
            decided = hopeless or (not doubted and (guard.status == guarding.CHANGED or proven))
            if decided or book.count(recipe) >= judging.most_runs(since):
                return self._judge(name, recipe, reference, guard)
            try:
                other = book.like(recipe, reference) if doubted else reference
                book.in_turn(other, recipe, reserve=self._reserve())
            except OutOfBudget:
                self._spent = True
                return self._judge(name, recipe, reference, guard)
            if (last := book.runs(recipe)[-1]).status is not None:
                return self._add(rows.failed(name, recipe, last, against=reference.label()))

    def _stands(self, guard: Guard, recipe: Recipe) -> bool:
        """Whether a changed loss is believed: one run of a noisy script may be an accident."""
        return guarding.is_blatant(guard) or len(self._book.runs(recipe)) > 1

    def _judge(self, name: str, recipe: Recipe, reference: Recipe, guard: Guard) -> Trial:
        status, reason = judging.judge(self._book, recipe, reference, guard, self._request)
        kept = status in judging.BETTER
        if kept:
            self._hold(recipe)
        case = (name, recipe, status, reason, reference, guard)
        return self._add(concluding.compared(self._book, *case, kept=kept))

    def _look_again(self) -> None:
        """What seems better than the best gets more runs, the most promising first.

        Changes that help only together are easily lost: the bundle was not proven, and then each
        of them was found to add nothing. On a noisy machine a large gain is lost just so. But much
        seems better than a best that had a bad run: it gets first what runs it needs anyway.
        """
        if self._request.choice.goal == "memory":
            return
        seen: set[str] = set()
        while chosen := judging.most_promising(self._book, self._best, self._trials, seen):
            recipe = Recipe(chosen.recipe)
            if self._book.count(self._best) < FINAL_RUNS:
                self._book.run(self._best, reserve=self._reserve())
                continue
            seen.add(recipe.key)
            if not self._best:
                self._book.ask_more_of(recipe)
            since = (len(self._book.runs(self._best)), len(self._book.runs(recipe)))
            try:
                self._book.in_turn(self._best, recipe, reserve=self._reserve())
            except OutOfBudget:
                self._spent = True
                return  # what it seemed is all there is to say
            if self._book.runs(recipe)[-1].status is None:
                name = f"{chosen.name}, again"
                self._decide(name, recipe, self._best, since=since)

    def _hold(self, recipe: Recipe) -> None:
        self._best = recipe
        self._bests.append(recipe)

    # Leaving out -----------------------------------------------------------------------------

    def _leave_one_out(self) -> None:
        """What each change of the best contributes; one that does not is dropped."""
        if self._request.choice.goal == "memory":
            return
        for name in planning.in_the_order_of_interest(self._best.changes, self._diagnosis):
            still = name in self._best.changes and len(self._best.changes) > 1
            if still and name not in self._gains:
                self._leave_out(name)

    def _leave_out(self, name: str) -> None:
        book, best = self._book, self._best
        rest, without = best, best.without(name)
        while rest != without:  # and without what is refused where it is missing
            rest = without
            if not book.count(rest):
                book.run(rest, reserve=self._last())
            without = book.at_work(rest)
        gain = book.speedup(rest, best)
        if gain is not None and not gain.low > 1.0 and book.count(rest) < judging.MOST_RUNS:
            # The other parts come first, unless this one costs time at every start.
            reserve = self._last() if name in judging.COSTLY else self._reserve()
            with contextlib.suppress(OutOfBudget):
                book.in_turn(best, rest, reserve=reserve)
            gain = book.speedup(rest, best)
        last = book.runs(rest)[-1]
        if gain is None or last.status is not None:
            self._add(rows.failed(f"without {name}", rest, last, against="the best so far"))
            return
        self._gains[name] = gain
        guard = book.guard(rest, best)
        dropped = not judging.contributes(name, gain) and guard.status != guarding.CHANGED
        if dropped:
            self._hold(rest)
            self._tried.add(planning.label(name, best.changes[name]))
        status, reason = SLOWER if gain.low > 1.0 else SAME, ""
        if dropped:
            reason = f"{name} adds nothing and is left out"
        elif gain.is_vague:
            status, reason = UNPROVEN, f"too noisy to tell; {name} stays"
        case = (f"without {name}", rest, status, reason, best, guard)
        self._add(concluding.compared(book, *case, kept=dropped))

    # Concluding ------------------------------------------------------------------------------

    def _run_the_last_ones(self) -> None:
        """Baseline and winner in turns until both have enough runs; then the winner's phases."""
        if not self._best:
            return
        pair = (BASELINE, self._best)
        while short := [one for one in pair if self._book.count(one) < FINAL_RUNS]:
            for one in short:
                if one == BASELINE or not self._look_at_the_winner():  # that is a run as well
                    self._book.run(one)
        self._look_at_the_winner()

    def _fall_back(self) -> None:
        """To the last best that is proven; a small step taken by luck would lose a large one."""
        row, held = concluding.fallback(self._book, self._bests, self._request)
        if row is not None:
            self._add(row)
            self._best = held

    def _look_at_the_winner(self) -> bool:
        """Its phases, where those that are known are of another recipe."""
        if self._latest[0] == self._best:
            return False
        profile = self._book.profile(self._best)
        if profile is not None:
            self._latest = (self._best, profile)
        return profile is not None

    def _add_the_rest(self) -> None:
        waiting = filter(self._is_open, self._plan.candidates) if self._spent else ()
        skipped = list(rest.skipped(waiting))
        refused = rest.refused(self._refused, [*self._trials, *skipped])
        best = self._best if self._winner is not None else BASELINE
        for row in (*skipped, *rest.under(best, self._diagnosis, refused, spent=self._spent)):
            self._add(row)

    def _add(self, trial: Trial) -> Trial:
        self._trials.append(trial)
        self._tell(trial)
        return trial
