"""A machine that only does arithmetic: recipes take the time their factors say, plus noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from hotlap import records
from hotlap.recipes import Recipe
from hotlap.records import Phase, Profile, Verdict
from hotlap.tunings import Run

DATA = Path(__file__).parents[1] / "data"


def profile(**shares: float) -> Profile:
    """A CPU profile with a loader of 0 workers, an AdamW and convolutions, bound as told."""
    found = records.load(DATA / "profile-schema-1.json")
    shares = shares or {"input": 0.6, "compute": 0.3}
    verdict = Verdict(
        bottleneck=max(shares, key=lambda name: shares[name]),
        share=max(shares.values()),
        detail=None,
        sentence="It is what it is.",
        shares=shares,
    )
    environment = {
        **found.environment,
        "device": "cpu",
        "cores": 4.0,
        "threads": 4,
        "memory_bytes": 16 << 30,
        "shared_memory_bytes": 8 << 30,
        "world_size": 1,
        "script": {"layers": {"Conv2d": 4}, "types": {"float32": 8}, "autocast": None},
    }
    loader = msgspec.structs.replace(
        found.loaders[0], workers=0, iterable=False, trained=50, batch_size=32, batches=100
    )
    phases = {name: Phase(seconds=0.001, share=0.1) for name in records.PHASES}
    startup = msgspec.structs.replace(found.startup, compile_seconds=None)
    optimizer = msgspec.structs.replace(
        found.optimizers[0], name="AdamW", torchs_own=True, can_fuse=True, fused=None, foreach=None
    )
    return msgspec.structs.replace(
        found,
        verdict=verdict,
        environment=environment,
        loaders=(loader,),
        phases=phases,
        startup=startup,
        optimizers=(optimizer,),
    )


def losses(seed: int = 0, *, worse: float = 0.0, count: int = 60) -> tuple[float | None, ...]:
    """A curve that falls from 2.3; the same seed gives the same curve."""
    chance = random.Random(seed)
    return tuple(
        2.3 * math.exp(-step / 40) + 0.2 + worse * step / count + 0.02 * chance.gauss(0, 1)
        for step in range(count)
    )


class Simulated:
    """factors: speed-up by optimization name (or by `name settings`); trouble: name -> status.

    refuses: by name, whether it is refused with a recipe.
    """

    def __init__(
        self,
        factors: dict[str, float] | None = None,
        *,
        trouble: dict[str, str] | None = None,
        worse: dict[str, float] | None = None,
        noise: float = 0.005,
        seed: int = 1,
        compile_seconds: float = 30.0,
        peaks: dict[str, float] | None = None,
        peak_noise: float = 0.0,
        steps: int = 60,
        refuses: dict[str, Callable[[Recipe], bool]] | None = None,
    ) -> None:
        self.factors = factors or {}
        self.trouble = trouble or {}
        self.worse = worse or {}
        self.refuses = refuses or {}
        self.peaks = peaks or {}
        self.peak_noise = peak_noise
        self.noise = noise
        self.steps = steps
        self.compile_seconds = compile_seconds
        self.log: list[str] = []
        self._chance = random.Random(seed)
        self._now = 0.0
        self._compiled = {""}
        self._filled = {""}

    def clock(self) -> float:
        return self._now

    def run(self, recipe: Recipe, *, limit: float, seed: int = 0) -> Run:
        self.log.append(recipe.label())
        cold = recipe.compiled not in self._compiled
        self._compiled.add(recipe.compiled)
        seconds = 6.0 + (self.compile_seconds if cold else 0.0)
        self._now += seconds
        for name, status in self.trouble.items():
            if name in recipe.changes:
                return Run(folder="x", seconds=seconds, status=status, reason=f"{name} broke")
        refused = {
            name: f"{name} does not go here"
            for name, refuses in self.refuses.items()
            if name in recipe.changes and refuses(recipe)
        }
        recipe = Recipe({n: s for n, s in recipe.changes.items() if n not in refused})
        filling = recipe.fills not in self._filled
        self._filled.add(recipe.fills)
        factor = math.prod(self._factor(name, recipe) for name in recipe.changes)
        if filling:  # nothing comes from the cache yet
            factor = 0.9
        step = 0.01 / factor * math.exp(self._chance.gauss(0, self.noise))
        return Run(
            folder="x",
            refused=refused,
            seconds=seconds,
            step_seconds=step,
            sample_seconds=step / 32,
            windows=(step, step, step),
            peak_bytes=self._peak(recipe),
            start_seconds=seconds - 4,
            cold=cold,
            filling=filling,
            epoch_steps=500,
            seed=seed,
            losses=losses(
                seed, worse=sum(self.worse.get(n, 0.0) for n in recipe.changes), count=self.steps
            ),
        )

    def _peak(self, recipe: Recipe) -> int:
        exact = 1e9 * math.prod(self.peaks.get(name, 1.0) for name in recipe.changes)
        # Drawn only where asked for: the times of the other tests stay as they are.
        return int(
            exact * math.exp(self._chance.gauss(0, self.peak_noise)) if self.peak_noise else exact
        )

    def _factor(self, name: str, recipe: Recipe) -> float:
        label = " ".join([name, *map(str, recipe.changes[name].values())])
        return self.factors.get(label, self.factors.get(name, 1.0))

    def knows(self, recipe: Recipe, *, full: bool) -> bool:
        return False

    def fills(self, recipe: Recipe) -> bool:
        return recipe.fills not in self._filled

    def profile(self, recipe: Recipe, *, limit: float) -> tuple[Run, Profile | None]:
        return self.run(recipe, limit=limit), profile()
