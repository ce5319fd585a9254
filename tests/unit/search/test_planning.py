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
        )
        for name, promise in sorted(named.items(), key=lambda one: -one[1])
    ]


def names(chosen: list[Candidate]) -> list[str]:
    return [one.name for one in chosen]


def test_what_promises_little_waits() -> None:
    chosen = bundled(candidates(precision_bf16=0.4, compile=0.3, fused_optimizer=0.01))
    assert names(chosen) == ["precision-bf16", "compile"]


def test_what_will_count_once_the_others_are_there_rides_along() -> None:
    """As measured: the optimizer is 3 % of a step of 11 ms, and 9 % of the 4 ms that are left."""
    measured = {"compile": 0.24, "precision_bf16": 0.22, "device_input": 0.18, "tf32": 0.17}
    chosen = bundled(candidates(**measured, channels_last=0.11, fused_optimizer=0.014))
    assert names(chosen)[-1] == "fused-optimizer"
    chosen = bundled(candidates(**measured, channels_last=0.11, allocator=0.01))
    assert names(chosen)[-1] == "channels-last"


def test_what_promises_everything_leaves_no_room_for_the_rest() -> None:
    chosen = bundled(candidates(device_input=1.0, compile=0.2, fused_optimizer=0.005))
    assert names(chosen) == ["device-input", "compile"]


def test_what_does_not_go_with_a_better_one_stays_out() -> None:
    chosen = bundled(candidates(device_input=0.5, sample_cache=0.4, fused_optimizer=0.1))
    assert names(chosen) == ["device-input", "fused-optimizer"]


def test_what_changes_learning_comes_by_itself() -> None:
    chosen = bundled(candidates(batch_size=0.5, compile=0.4, tf32=0.3))
    assert names(chosen) == ["compile", "tf32"]
