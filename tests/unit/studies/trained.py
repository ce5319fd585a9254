"""Trainings that never were: what each row learns and takes is told."""

from __future__ import annotations

from typing import Any

from hotlap.answers import FAILED, MEASURED, Done
from hotlap.studies.study import Results

STEP = 0.1  # the accuracy of an epoch below that of the next


def results(
    plan: list[Any],
    accuracies: dict[str, float | None],
    *,
    seconds: dict[str, float] | None = None,
    spread: float = 0.002,
    losses: dict[str, list[Any]] | None = None,
) -> Results:
    """`accuracies` after the last of three epochs, by row; None for a failure.

    Seeds are `spread` apart; `losses` are those of the first seed's epochs.
    """
    done = []
    for cell in plan:
        top = accuracies.get(cell.row)
        if top is None:
            done.append(Done(cell=cell, status=FAILED, reason="planted"))
            continue
        took = (seconds or {}).get(cell.row, 2.0) * (1 + 0.001 * cell.run)
        told = (losses or {}).get(cell.row) if cell.run == 0 else None
        epochs = [
            {
                "epoch": epoch + 1,
                "loss": (told or [2.0, 1.0, 0.5])[epoch],
                "train_accuracy": top - (2 - epoch) * STEP,
                "test_accuracy": top - (2 - epoch) * STEP + spread * cell.run,
                "total_seconds": 9.0 if epoch == 0 else took,
            }
            for epoch in range(3)
        ]
        done.append(Done(cell=cell, status=MEASURED, figures={"epochs": epochs}))
    return Results(plan, done)
