"""Which of the steps that a process kept stand for training, and what starting loaders adds."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import stats
from hotlap.trials.raw import Raw

TRAINING_FROM = 0.1  # of the steps; where fewer are without evaluation, it is part of the step
STARTING_COUNTS_FROM = 0.1  # of the training time


def kept(raw: Raw, *stages: str) -> list[Raw]:
    return [
        row for window in raw["windows"] if window["stage"] in stages for row in window["intervals"]
    ]


def counted(raw: Raw, stage: str = "bare") -> list[Raw]:
    """The intervals that stand for training: undisturbed, without evaluation.

    The windows that agreed are preferred to those before them. A run too short for a bare window
    is judged by whatever intervals there are after the first.
    """
    windows = [window for window in raw["windows"] if window["stage"] == stage]
    if stage == "bare" and raw["settled"]:
        windows = windows[-3:]
    rows = [row for window in windows for row in window["intervals"] if not row["disturbed"]]
    if not rows and stage == "bare":
        rows = kept(raw, "warmup", "bare", "phases")
    found = trained(rows)
    plain = [row for row in found if row["kind"] != "epoch"]
    # Epochs of a few batches: then starting the loader is part of what a step costs.
    taken = extra_seconds(found) / max(1e-9, sum(row["seconds"] for row in found))
    return found if taken >= STARTING_COUNTS_FROM or not plain else plain


def trained(rows: list[Raw]) -> list[Raw]:
    """Without those that evaluated, unless nearly all do: as reinforcement learning plays.

    Of one that evaluated between two epochs there is left what came after: an epoch's start.
    """
    without = sum(row["kind"] != "evaluation" for row in rows)
    if without < TRAINING_FROM * len(rows):
        return rows
    parts = [row if row["kind"] != "evaluation" else row.get("resumed") for row in rows]
    return [part for part in parts if part is not None]


def extra_seconds(rows: Sequence[Raw]) -> float:
    """What starting loaders added to these steps, over what the other steps take."""
    starts: list[float] = [row["seconds"] for row in rows if row["kind"] == "epoch"]
    plain: list[float] = [row["seconds"] for row in rows if row["kind"] == "step"]
    if not starts or not plain:
        return sum(starts)
    return max(0.0, sum(starts) - len(starts) * stats.mean(plain))


def epoch_start(raw: Raw) -> tuple[float | None, float | None]:
    """What a step costs more when a loader is started in it, and its share of training time."""
    share, rows = starting(raw)
    if not share:
        return None, None
    if share == 1:
        return _each_start(raw)
    extra = extra_seconds(rows)
    return extra / (share * len(rows)), extra / sum(row["seconds"] for row in rows)


def starting(raw: Raw) -> tuple[float | None, list[Raw]]:
    """The share of the steps in which a loader was started, and these steps."""
    undisturbed = [row for row in kept(raw, "bare", "phases") if not row["disturbed"]]
    rows = [row for row in trained(undisturbed) if row["kind"] != "evaluation"]
    starts = sum(row["kind"] == "epoch" for row in rows)
    return (starts / len(rows) if rows else None), rows


def _each_start(raw: Raw) -> tuple[float | None, float | None]:
    """Where every step starts workers: the wait for input that is not for making batches."""
    making = raw["input_cpu"].get("new_workers_making_seconds")
    rows = [row for row in counted(raw, "phases") if row.get("phases")]
    if making is None or not rows:
        return None, None
    waits = [max(0.0, row["phases"].get("input", 0.0) - making) for row in rows]
    share = sum(waits) / max(1e-9, sum(row["seconds"] for row in rows))
    return share * stats.mean([row["seconds"] for row in counted(raw)]), share
