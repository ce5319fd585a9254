"""A study and a runner that only do arithmetic: what is told to be is what is measured."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hotlap import answers
from hotlap.answers import Axis, Called, Column, Done, Picture, Series
from hotlap.errors import Interrupted
from hotlap.studies import study

COLUMNS = (Column(name="seconds", title="took", unit="seconds", interval=True),)


def planned(names: list[str], runs: int = 1) -> Callable[[Any], list[Called]]:
    cells = [Called(row=name, function="nowhere:at_all", arguments={"n": name}) for name in names]
    return lambda setting: study.interleaved(cells, runs)


def tabulate(setting: Any, results: study.Results) -> list[answers.Row]:
    made = [
        study.row(name, results, lambda good: {"seconds": good[0].figures["seconds"]})
        for name in results.rows
    ]
    known = {one.name: one.number("seconds") or 0.0 for one in made if one.good}
    return study.with_best(made, sorted(known, key=known.__getitem__)[:1])


def read(setting: Any, rows: list[answers.Row]) -> str:
    best = next((one for one in rows if one.best), None)
    return f"Best: {best.name}.{study.missing(rows)}" if best else study.nothing(rows)


def draw(setting: Any, rows: list[answers.Row], results: Any) -> tuple[Picture, ...]:
    good = [one for one in rows if one.good]
    series = Series(
        name="took",
        x=tuple(one.name for one in good),
        y=tuple(one.number("seconds") for one in good),
    )
    axes = {"x": Axis(title="which"), "y": Axis(title="seconds")}
    return (Picture(kind="bars", **axes, series=(series,), words="How long."),) if good else ()


def made(names: list[str], *, runs: int = 1, name: str = "made-up") -> Any:
    return SimpleNamespace(
        NAME=name,
        QUESTION="Which one?",
        COLUMNS=COLUMNS,
        plan=planned(names, runs),
        tabulate=tabulate,
        read=read,
        draw=draw,
    )


class Told:
    """Answers what it was told for each row: seconds, a reason to fail, or Ctrl-C."""

    def __init__(self, told: dict[str, float | str | type[Interrupted]]) -> None:
        self._told = told
        self.ran: list[str] = []

    def run(self, cell: Any, *, progress: Callable[[dict[str, Any]], None]) -> Done:
        self.ran.append(cell.row)
        progress({"seconds": 0.0, "stage": "running"})
        what = self._told[cell.row]
        if what is Interrupted:
            raise Interrupted("Interrupted.")
        if isinstance(what, str):
            return Done(cell=cell, status=answers.FAILED, reason=what)
        return Done(cell=cell, status=answers.MEASURED, figures={"seconds": what})
