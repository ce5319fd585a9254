"""What would be tried, in the order the diagnosis suggests, and why not the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hotlap import optimizations
from hotlap.optimizations import Optimization
from hotlap.recipes import Recipe
from hotlap.records import Profile, Record, Verdict
from hotlap.tunings import NOT_APPLICABLE, SKIPPED, Trial

WORTH_TRYING = 0.005  # of the step; below it there is nothing to find
WORTH_BUNDLING = 0.02
PRECISIONS = ("precision-bf16", "precision-fp16", "tf32")
OF_THE_BEST = 0.1  # of the largest promise: what is less can wait until the bottleneck has moved


def label(name: str, settings: dict[str, Any]) -> str:
    return " ".join([name, *map(str, settings.values())])


@dataclass(frozen=True, kw_only=True)
class Candidate:
    name: str
    settings: dict[str, Any]
    promise: float  # share it could save, as the diagnosis sees it; of later settings, less likely
    numerics: str
    first: bool  # the settings tried first, of those the optimization offers
    could_save: float  # what is promised for the settings tried first
    of_memory: bool = False  # or else of the time of a step
    needs: tuple[str, ...] = ()  # beside its NEEDS, for this script

    @property
    def label(self) -> str:
        return label(self.name, self.settings)

    def on(self, recipe: Recipe) -> Recipe:
        """The recipe with it, and with what it needs."""
        for name in self.needs:
            if name not in recipe.changes:
                recipe = recipe.having(name, {})
        return recipe.having(self.name, self.settings)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the user allowed and asked for."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    goal: str = "speed"


@dataclass(frozen=True, kw_only=True)
class Plan:
    candidates: tuple[Candidate, ...]
    refused: tuple[Trial, ...]  # rows for what is not tried


def plan(record: Record, verdict: Verdict, choice: Choice, *, latest: Record | None = None) -> Plan:
    """From the baseline's record; `latest` is that of the best recipe so far, if there is one.

    Whether something applies to the script is a fact about the script; what it could win, and what
    its loaders look like by now, is a fact about the latest record.
    """
    now = latest or record
    view = msgspec.structs.replace(
        record, loaders=now.loaders, phases=now.phases, step=now.step, kernels=now.kernels
    )
    candidates: list[Candidate] = []
    refused: list[Trial] = []
    for one in optimizations.known():
        reason, status = _refusal(one, view, choice)
        if reason is not None:
            refused.append(Trial(name=one.NAME, recipe={}, status=status, reason=reason))
            continue
        promise = max(0.0, one.promise(now, verdict))
        less = MEMORY_PROMISE.get(one.NAME, 0.0) if choice.goal == "memory" else 0.0
        of_memory, promise = less > promise, max(promise, less)
        if promise < WORTH_TRYING and one.NAME not in choice.only + choice.allow:
            refused.append(
                Trial(
                    name=one.NAME,
                    recipe={},
                    status=SKIPPED,
                    reason="could save nothing, by the diagnosis",
                )
            )
            continue
        for number, settings in enumerate(_offered(one, view, record)):
            candidates.append(
                Candidate(
                    name=one.NAME,
                    settings=settings,
                    promise=promise * 0.5**number,  # later settings are second thoughts
                    numerics=one.NUMERICS,
                    first=number == 0,
                    could_save=promise,
                    of_memory=of_memory,
                    needs=_needs(one, record),
                )
            )
    candidates.sort(key=lambda candidate: -candidate.promise)
    return Plan(candidates=tuple(candidates), refused=tuple(refused))


def _needs(one: Optimization, record: Record) -> tuple[str, ...]:
    """What it needs where that depends on the script."""
    found: tuple[str, ...] = getattr(one, "needs", lambda record: ())(record)
    return found


def _offered(one: Optimization, view: Record, record: Record) -> list[dict[str, Any]]:
    """Without what the script has by itself: that is the best recipe without this optimization."""
    own = getattr(one, "own", lambda record: None)(record)
    return [settings for settings in one.candidates(view) if settings != own]


# What each could save of the memory, roughly; for ordering under --goal memory.
MEMORY_PROMISE = {
    "precision-bf16": 0.3,
    "precision-fp16": 0.2,
    "gradient-accumulation": 0.4,
    "activation-checkpointing": 0.4,
    "memory-budget": 0.35,
    "compile": 0.1,
    "gradient-views": 0.1,
    "allocator": 0.05,
    "zero-grad-none": 0.05,
}


def _refusal(one: Optimization, record: Record, choice: Choice) -> tuple[str | None, str]:
    if choice.only and one.NAME not in choice.only:
        return "not named with --only", SKIPPED
    if one.NAME in choice.skip:
        return "left out with --skip", SKIPPED
    needed = next((n for n in (*one.NEEDS, *_needs(one, record)) if n in choice.skip), None)
    if needed is not None:
        return f"needs {needed}, which is left out with --skip", SKIPPED
    if one.NUMERICS == "changes" and one.NAME not in choice.allow:
        return f"changes what is learned; allow it with --allow {one.NAME}", SKIPPED
    return one.refusal(record), NOT_APPLICABLE


def bundled(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The promising ones that can go together: the first settings of each, the best ones first.

    One that changes what is learned comes by itself: in a bundle the guard could see nothing else.
    """
    chosen: list[Candidate] = []
    least = max(WORTH_BUNDLING, OF_THE_BEST * max((one.promise for one in candidates), default=0))
    for candidate in candidates:
        one = optimizations.named(candidate.name)
        taken = {other.name for other in chosen}
        clash = taken & set(one.CONFLICTS) or any(
            candidate.name in optimizations.named(name).CONFLICTS for name in taken
        )
        alone = one.NUMERICS == "changes"
        if candidate.first and candidate.promise >= least and not clash and not alone:
            chosen.append(candidate)
    return chosen


def without_precision(recipe: Recipe) -> Recipe:
    for name in PRECISIONS:
        recipe = recipe.without(name)
    return recipe


def in_the_order_of_interest(names: Iterable[str], diagnosis: Profile) -> list[str]:
    """What the gain is owed to; then those that may well have added nothing."""
    promises = {
        name: optimizations.named(name).promise(diagnosis, diagnosis.verdict) for name in names
    }
    ascending = sorted(promises, key=lambda name: promises[name])
    return ascending[-1:] + ascending[:-1]
