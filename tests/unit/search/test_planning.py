"""What is tried together first."""

from __future__ import annotations

from hotlap import optimizations
from hotlap.search.planning import Candidate, bundled


def candidates(**promises: float) -> list[Candidate]:
    named = {name.replace("_", "-"): promise for name, promise in promises.items()}
    return [
        Candidate(
            name=name,
            settings={},
            promise=promise,
            numerics=optimizations.named(name).NUMERICS,
            first=True,
            could_save=promise,
        )
        for name, promise in sorted(named.items(), key=lambda one: -one[1])
    ]


def names(chosen: list[Candidate]) -> list[str]:
    return [one.name for one in chosen]


def test_what_promises_little_waits() -> None:
    chosen = bundled(candidates(precision_bf16=0.4, compile=0.3, fused_optimizer=0.03))
    assert names(chosen) == ["precision-bf16", "compile"]
    chosen = bundled(candidates(precision_bf16=0.1, compile=0.05, fused_optimizer=0.015))
    assert names(chosen) == ["precision-bf16", "compile"]


def test_what_does_not_go_with_a_better_one_stays_out() -> None:
    chosen = bundled(candidates(device_input=0.5, sample_cache=0.4, fused_optimizer=0.1))
    assert names(chosen) == ["device-input", "fused-optimizer"]


def test_what_changes_learning_comes_by_itself() -> None:
    chosen = bundled(candidates(batch_size=0.5, compile=0.4, tf32=0.3))
    assert names(chosen) == ["compile", "tf32"]
