"""A tuning with a row of every status, around a real profile; a test changes what it needs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec

from hotlap import records, tunings
from hotlap.records import Finding, Memory, Phase, Profile
from hotlap.tunings import Guard, Noise, Part, Run, Speedup, Trial, Tuning, Winner

PROFILE = Path(__file__).parents[1] / "data" / "profile-schema-1.json"
RECIPE: tunings.Recipe = {"loader-workers": {"workers": 8}, "compile": {"mode": "default"}}
MIB = 1 << 20


def profile(**changes: Any) -> Profile:
    return msgspec.structs.replace(records.decode(PROFILE.read_bytes()), **changes)


def slow_profile() -> Profile:
    """Waits for input most of its 26 ms."""
    real = profile()
    parts = {"input": 15.2, "forward": 5.47, "backward": 4.59, "optimizer": 0.52, "other": 0.35}
    return msgspec.structs.replace(
        real,
        command=("train.py", "--epochs", "90"),
        folder="/home/user/.hotlap/tune-20261115-071306/baseline",
        phases=phases(parts),
        step=msgspec.structs.replace(
            real.step, median_seconds=0.0261, low_seconds=0.0247, high_seconds=0.0274, settled=True
        ),
        step_seconds=step_times(0.0261, 262),
        losses=losses(1),
        verdict=msgspec.structs.replace(
            real.verdict,
            bottleneck="input",
            share=0.58,
            sentence="58 % of every 26.1 ms step goes to waiting for input, most of it CPU work on "
            "the samples.",
        ),
        findings=(
            Finding(
                rule="slow-input",
                summary="Training waits 58 % of the step for its input, on CPU work.",
                evidence="15.2 ms of 26.1 ms a step; Shapes with num_workers=0",
                advice="Pass num_workers=8, persistent_workers=True to this DataLoader.",
                file="/home/user/train.py",
                line=68,
            ),
        ),
        memory=memory(5210, activations=4100),
    )


def fast_profile() -> Profile:
    before = slow_profile()
    parts = {"input": 0.4, "forward": 4.6, "backward": 4.1, "optimizer": 0.5, "other": 0.3}
    return msgspec.structs.replace(
        before,
        phases=phases(parts),
        step=msgspec.structs.replace(before.step, median_seconds=0.0099),
        step_seconds=(2.4, *step_times(0.0099, 420)),
        losses=losses(9),
        memory=memory(4380, activations=3270),
    )


def phases(milliseconds: dict[str, float]) -> dict[str, Phase]:
    whole = sum(milliseconds.values())
    found = {name: Phase(seconds=None, share=None) for name in records.PHASES}
    for name, value in milliseconds.items():
        found[name] = Phase(seconds=value / 1e3, share=value / whole)
    return found


def memory(peak: int, *, activations: int) -> Memory:
    return Memory(
        kind="device",
        peak_bytes=peak * MIB,
        reserved_bytes=(peak + 300) * MIB,
        parameters_bytes=180 * MIB,
        gradients_bytes=180 * MIB,
        optimizer_bytes=360 * MIB,
        activations_bytes=activations * MIB,
        rest_bytes=(peak - 720 - activations) * MIB,
    )


def step_times(median: float, count: int) -> tuple[float, ...]:
    chance = random.Random(count)
    spread = [median * chance.lognormvariate(0, 0.05) for _ in range(count)]
    return tuple(one * (2.2 if at % 97 == 96 else 1) for at, one in enumerate(spread))


def losses(seed: int, steps: int = 240) -> tuple[float, ...]:
    chance = random.Random(seed)
    return tuple(1.1 + 1.3 * 0.985**at + chance.gauss(0, 0.06) for at in range(steps))


def run(seed: int, **changes: Any) -> Run:
    made = Run(
        folder=f"/runs/{seed}", step_seconds=0.0261, sample_seconds=0.00041, losses=losses(seed)
    )
    return msgspec.structs.replace(made, **changes)


def guard(status: str = "passed", reason: str = "same loss curve over 240 steps") -> Guard:
    return Guard(status=status, reason=reason, steps=240, difference=0.004, tolerance=0.07)


def speedup(ratio: float, spread: float = 0.03) -> Speedup:
    return Speedup(ratio=ratio, low=ratio - spread, high=ratio + spread)


def measured(name: str, status: str, ratio: float, **changes: Any) -> Trial:
    made = Trial(
        name=name,
        recipe={},
        status=status,
        speedup=speedup(ratio),
        overall=speedup(ratio),
        guard=guard(),
        step_seconds=0.0261 / ratio,
        samples_per_second=2451 * ratio,
        peak_bytes=5210 * MIB,
        start_seconds=0.21,
    )
    return msgspec.structs.replace(made, **changes)


def trials() -> tuple[Trial, ...]:
    """A row of every status."""
    best = "the best so far"
    return (
        measured(
            "everything promising",
            tunings.FASTER,
            2.41,
            recipe=RECIPE,
            kept=True,
            start_seconds=31.4,
            break_even_steps=1938,
            peak_bytes=4380 * MIB,
            runs=(run(21), run(22)),
        ),
        measured("tf32", tunings.SAME, 1.002, against=best, overall=speedup(2.42)),
        measured("fused-optimizer", tunings.SLOWER, 0.94, against=best, overall=speedup(2.27)),
        measured("loader-workers 2", tunings.SLOWER, 0.71, against=best, overall=speedup(1.71)),
        measured(
            "precision-fp16",
            tunings.CHANGED,
            1.31,
            against=best,
            reason="the loss ends 0.31 higher than the baseline's 1.21",
            guard=guard("changed", "the loss ends 0.31 higher than the baseline's 1.21"),
        ),
        measured(
            "precision-bf16",
            tunings.UNPROVEN,
            1.22,
            against=best,
            guard=guard("unclear", "12 steps are too few to tell (of 16)"),
        ),
        measured("gradient-accumulation 2", tunings.SMALLER, 0.97, against=best),
        Trial(
            name="channels-last",
            recipe={"channels-last": {}},
            status=tunings.FAILED,
            reason="RuntimeError: required rank 4 tensor to use channels_last format",
            against=best,
            log="/home/user/.hotlap/tune-20261115-071306/channels-last-1/output.log",
        ),
        Trial(
            name="batch-size 512",
            recipe={"batch-size": {"factor": 4}},
            status=tunings.OUT_OF_MEMORY,
            reason="CUDA out of memory: tried to allocate 2.00 GiB",
            against=best,
        ),
        Trial(
            name="compile max-autotune",
            recipe={"compile": {"mode": "max-autotune"}},
            status=tunings.TIMED_OUT,
            reason="no step within 600 s",
        ),
        Trial(
            name="pinned-memory",
            recipe={},
            status=tunings.NOT_APPLICABLE,
            reason="batches are already in pinned memory",
        ),
        Trial(
            name="batch-size",
            recipe={},
            status=tunings.SKIPPED,
            reason="changes what is learned; allow it with --allow batch-size",
        ),
    )


def winner(**changes: Any) -> Winner:
    made = Winner(
        recipe=RECIPE,
        speedup=Speedup(ratio=2.4, low=2.36, high=2.45),
        guard=guard(),
        parts=(
            Part(
                name="loader-workers",
                settings={"workers": 8},
                numerics="close",
                by_hand="DataLoader(dataset, ..., num_workers=8)",
                speedup=speedup(1.98),
            ),
            Part(
                name="compile",
                settings={"mode": "default"},
                numerics="close",
                by_hand='model.compile(mode="default")',
                speedup=speedup(1.21),
                note="together with nothing else",
            ),
        ),
        step_seconds=0.0109,
        baseline_seconds=0.0261,
        samples_per_second=5871.0,
        peak_bytes=4380 * MIB,
        baseline_peak_bytes=5210 * MIB,
        start_seconds=31.4,
        break_even_steps=2066,
        profile=fast_profile(),
    )
    return msgspec.structs.replace(made, **changes)


def tuning(**changes: Any) -> Tuning:
    made = Tuning(
        schema=tunings.SCHEMA,
        hotlap="0.2.0",
        command=("train.py", "--epochs", "90"),
        created="2026-11-15T07:13:06+0000",
        folder="/home/user/.hotlap/tune-20261115-071306",
        goal="speed",
        budget_seconds=600.0,
        options={},
        seconds=543.2,
        baseline=slow_profile(),
        noise=Noise(runs=3, spread=0.011, low=0.98, high=1.02),
        trials=trials(),
        winner=winner(),
        summary="2.40 times as fast (2.36 to 2.45) with loader-workers + compile: 26.1 ms a step "
        "become 10.9 ms.",
        baseline_runs=(run(1), run(2), run(3)),
    )
    return msgspec.structs.replace(made, **changes)
