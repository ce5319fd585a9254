"""A tuning or a study as CSV: one line for each trial or row, numbers in SI units."""

from __future__ import annotations

import csv
import io
from typing import Any

from hotlap.answers import Answer
from hotlap.recipes import Recipe
from hotlap.reports.wording import finite
from hotlap.tunings import Speedup, Trial, Tuning

# A cell that starts like a formula is one to a spreadsheet, also after blanks and in full width.
FORMULA = tuple("=+-@＝＋－＠")


def render(tuning: Tuning) -> str:
    return _written(list(_line(EMPTY)), [_line(trial) for trial in tuning.trials])


def render_answer(answer: Answer) -> str:
    """A column with intervals is followed by its lower and upper ends."""
    wide = {name for row in answer.rows for name in row.intervals}
    shown = [column.name for column in answer.columns]
    others = dict.fromkeys(name for row in answer.rows for name in row.values if name not in shown)
    names = ["row", "status", "reason", "best", "runs"]
    for name in (*others, *shown):
        names += [name, *([f"{name}_low", f"{name}_high"] if name in wide else [])]
    lines = []
    for row in answer.rows:
        line: dict[str, Any] = {"row": row.name, "status": row.status, "reason": row.reason}
        line.update(best="yes" if row.best else "no", runs=row.runs, **row.values)
        for name, (low, high) in row.intervals.items():
            line.update({f"{name}_low": low, f"{name}_high": high})
        lines.append({name: line.get(name) for name in names})
    return _written(names, lines)


def _written(names: list[str], lines: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in line.items()} for line in lines)
    return out.getvalue()


EMPTY = Trial(name="", recipe={}, status="")


def _line(trial: Trial) -> dict[str, Any]:
    guard = trial.guard
    return {
        "trial": trial.name,
        "recipe": Recipe(trial.recipe).label() if trial.recipe else "",
        "status": trial.status,
        "reason": trial.reason,
        "kept": "yes" if trial.kept else "no",
        "against": trial.against,
        **_interval("speedup", trial.speedup),
        **_interval("overall", trial.overall),
        "step_seconds": trial.step_seconds,
        "samples_per_second": trial.samples_per_second,
        "peak_bytes": trial.peak_bytes,
        "start_seconds": trial.start_seconds,
        "break_even_steps": trial.break_even_steps,
        "guard": guard.status if guard else "",
        "guard_reason": guard.reason if guard else "",
        "log": trial.log or "",
    }


def _interval(name: str, found: Speedup | None) -> dict[str, float | None]:
    return {
        name: found.ratio if found else None,
        f"{name}_low": found.low if found else None,
        f"{name}_high": found.high if found else None,
    }


def _cell(value: Any) -> Any:
    """Numbers as they are, nothing as nothing, and text that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        number = finite(value)
        if isinstance(number, float) and number.is_integer():
            return int(number)  # of workers, there are 2 and not 2.0
        return "" if number is None else number
    text = value.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    risky = text.lstrip().startswith(FORMULA) or text[:1] in ("\t", "\n")
    return f"'{text}" if risky else text
