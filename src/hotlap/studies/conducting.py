"""Runs the cells of a study, one after the other or several at once where they do not share a
machine; keeps each, and goes on where one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hotlap import answers
from hotlap.answers import Done, Row
from hotlap.errors import Interrupted
from hotlap.studies import disturbances
from hotlap.studies.runner import Runner
from hotlap.studies.study import AnyCell, Results, Setting, Study
from hotlap.trials.runner import undisturbed

Tell = Callable[[Row], None]


@dataclass
class Conducted:
    """What is known so far."""

    study: Study
    setting: Setting
    plan: Sequence[AnyCell]
    done: list[Done] = field(default_factory=list)
    aside: list[Done] = field(default_factory=list)  # see disturbances.py
    complete: bool = True

    @property
    def results(self) -> Results:
        return Results(self.plan, self.done)

    @property
    def cells(self) -> list[Done]:
        """Every one that was run."""
        return [*self.done, *self.aside]

    @property
    def rows(self) -> list[Row]:
        return self.study.tabulate(self.setting, self.results)


def conduct(
    study: Study,
    setting: Setting,
    runner: Runner,
    *,
    finished: Sequence[Done] = (),
    tell: Tell = lambda row: None,
    keep: Callable[[Conducted], None] = lambda conducted: None,
    progress: Callable[[dict[str, Any]], None] = lambda state: None,
    at_once: int = 1,
    cores: float | None = None,
    stop: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
) -> Conducted:
    """Cells that are in `finished` and went well are taken from there.

    `keep` gets what is known after each cell, `tell` each row when its last cell has been run: as
    yet without intervals where further runs are to come that tell of the spread. Ctrl-C ends it;
    what was measured until then is in the answer. With more than one `at_once`, `stop` has the
    runner take back all that run. Where all cells share one machine of so many `cores`, those that
    others disturbed are told apart and, unless the study is a quick one, run again in the end.
    """
    plan = study.plan(setting)
    known = {_key(one.cell): one for one in finished if one.good}
    found = Conducted(study, setting, plan)
    asked = set(map(_key, plan))
    aside = [one for one in finished if one.status == answers.SET_ASIDE]
    found.aside[:] = [one for one in aside if _key(one.cell) in asked]
    made: dict[int, Done] = {}
    began = clock()

    def run(number: int) -> Done:
        cell = plan[number]
        label = f"{number + 1}/{len(plan)} {cell.row}"
        told = labelled(progress, label) if at_once == 1 else together
        return known.get(_key(cell)) or _run(cell, runner, told)

    def together(state: dict[str, Any]) -> None:
        """Of those that run at once none is the one."""
        seconds = clock() - began
        progress({**state, "recipe": f"{len(made)}/{len(plan)} done", "seconds": seconds})

    try:
        for number, done in _side_by_side(run, len(plan), at_once, stop):
            made[number] = done
            found.done[:] = _marked([made[at] for at in sorted(made)], cores)
            keep(found)
            to_come = [cell for at, cell in enumerate(plan) if at not in made]
            if all(other.row != done.cell.row for other in to_come):
                row = next(row for row in found.rows if row.name == done.cell.row)
                tell(_without_intervals(row) if any(other.run for other in to_come) else row)
        if cores is not None and not setting.quick:
            _repeat(found, runner, cores, keep, progress)
    except (Interrupted, KeyboardInterrupt):
        found.complete = False
    return found


def _marked(done: list[Done], cores: float | None) -> list[Done]:
    return done if cores is None else disturbances.marked(done, cores)


def _repeat(
    found: Conducted,
    runner: Runner,
    cores: float,
    keep: Callable[[Conducted], None],
    progress: Callable[[dict[str, Any]], None],
) -> None:
    """By now it is known how quiet the machine can be, and it may have become so."""
    while (at := disturbances.worst(found.done, found.aside)) is not None:
        before = found.done[at]
        again = _run(before.cell, runner, labelled(progress, f"again {before.cell.row}"))
        found.done[at], aside = disturbances.sorted_out(before, again, cores)
        found.aside.append(aside)
        found.done[:] = _marked(found.done, cores)
        keep(found)


def _side_by_side(
    run: Callable[[int], Done], count: int, at_once: int, stop: Callable[[], None]
) -> Iterator[tuple[int, Done]]:
    """Each with its number, as they come."""
    if at_once == 1:  # in this thread, whose signals are the user's
        for number in range(count):
            yield number, run(number)
        return
    with ThreadPoolExecutor(at_once) as pool:
        futures = {pool.submit(run, number): number for number in range(count)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            with undisturbed():  # by a second Ctrl-C
                pool.shutdown(wait=False, cancel_futures=True)
                stop()
            raise


def _without_intervals(row: Row) -> Row:
    """Two runs that differ make an interval that says nothing, and all the others mend it."""
    return msgspec.structs.replace(row, intervals={})


def _run(cell: AnyCell, runner: Runner, progress: Callable[[dict[str, Any]], None]) -> Done:
    if cell.skip:
        return Done(cell=cell, status=answers.SKIPPED, reason=cell.skip)
    return runner.run(cell, progress=progress)


def labelled(
    progress: Callable[[dict[str, Any]], None], label: str
) -> Callable[[dict[str, Any]], None]:
    return lambda state: progress({**state, "recipe": label})


def _key(cell: AnyCell) -> bytes:
    return msgspec.json.encode(cell, order="deterministic")
