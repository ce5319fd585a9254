"""What a study is, and what its file may ask for: the setting, plans, and rows.

A study is a module: its docstring is its page, and it has the names below. Everything it decides
comes from its arguments, so that a test can ask it with figures that were made up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import msgspec

from hotlap import answers, stats, units
from hotlap.answers import Called, Column, Done, Picture, Row, Series, Timed, Trained, Value
from hotlap.studies.estimates import Costs, Estimate, Timing
from hotlap.tunings import Speedup

AnyCell = Timed | Trained | Called
T = TypeVar("T")
CellT = TypeVar("CellT", Timed, Trained, Called)
_PYTHON = ("python", "-m")
_BY_ITSELF = {  # what a row does; else it is done to it: skipped, not run
    answers.FAILED: "failed",
    answers.OUT_OF_MEMORY: "ran out of memory",
    answers.TIMED_OUT: "timed out",
}
AND = "and "  # begins the name of a row that adds to the one above
NAMED = 3  # rows of a kind that a reading names; of more it says how many


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What was asked for, and what there is to do it with."""

    quick: bool = False
    device: str = "cpu"
    data: str | None = None  # a folder or an archive of images; None: synthetic ones
    images: str | None = None  # the folder where images that are ready are kept
    epochs: int | None = None
    seeds: int | None = None
    cores: int = 1
    gpus: int = 0

    def pick(self, quick: T, full: T) -> T:
        return quick if self.quick else full

    def workload(self, name: str, *options: object) -> tuple[str, ...]:
        """`python -m hotlap.workloads.NAME` on the device and the images that were asked for.

        Those are CIFAR-10, so another workload gets its synthetic ones.
        """
        words = ["--device", self.device]
        if name == "cifar":
            words += ["--data", self.data or "synthetic"]
            words += ["--cache", self.images] if self.images is not None else []
        module = f"hotlap.workloads.{name}"
        return (*_PYTHON, module, *words, "--quiet", *map(str, options))


def unused(study: Study, setting: Setting) -> list[str]:
    """Options that were given and change nothing about the plan."""
    others: dict[str, Any] = {"data": "elsewhere", "epochs": (setting.epochs or 0) + 1}
    others["seeds"] = (setting.seeds or 0) + 1
    plan = list(study.plan(setting))
    return [
        name
        for name, other in others.items()
        if getattr(setting, name) and plan == list(study.plan(replace(setting, **{name: other})))
    ]


class Study(Protocol):
    __doc__: str | None
    NAME: str
    QUESTION: str
    COLUMNS: tuple[Column, ...]

    def plan(self, setting: Setting) -> Sequence[AnyCell]:
        """The cells in the order they are run."""

    def tabulate(self, setting: Setting, results: Results) -> list[Row]:
        """A row for each name in the plan, whatever became of its cells.

        It is asked after each cell, and a row is shown when its last cell has been run: a column
        may compare with rows that stand above, never with those below.
        """

    def proven(self, rows: Sequence[Row]) -> Sequence[str]:
        """Rows that are proven to be what the question asks for: the table marks them."""

    def read(self, setting: Setting, rows: Sequence[Row]) -> str:
        """One or two sentences that follow from the rows; they name the best one, or say that none
        is proven to be."""

    def draw(self, setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
        """At least one picture where anything was measured."""


def columns(study: Study, setting: Setting) -> tuple[Column, ...]:
    """Those of its table; what it calls `WITH_EPOCHS` only where `--epochs` was given, and what it
    calls `NOT_QUICK`, because it is never measured then, only without `--quick`."""
    left_out = set(() if setting.epochs else getattr(study, "WITH_EPOCHS", ()))
    left_out.update(getattr(study, "NOT_QUICK", ()) if setting.quick else ())
    return tuple(column for column in study.COLUMNS if column.name not in left_out)


class Results:
    """Cells that were run, by row, in the order in which the plan finishes the rows."""

    def __init__(self, plan: Sequence[AnyCell], done: Sequence[Done]) -> None:
        last = {cell.row: at for at, cell in enumerate(plan)}
        self._by_row: dict[str, list[Done]] = {
            row: [] for row in sorted(last, key=last.__getitem__)
        }
        for one in done:
            if one.status != answers.SET_ASIDE:
                self._by_row.setdefault(one.cell.row, []).append(one)

    @property
    def rows(self) -> list[str]:
        return list(self._by_row)

    def of(self, row: str) -> list[Done]:
        return self._by_row.get(row, [])

    def good(self, row: str) -> list[Done]:
        return [one for one in self.of(row) if one.good]

    def figures(self, row: str, name: str) -> list[float]:
        """One figure of every cell of the row that has it."""
        found = [one.figures.get(name) for one in self.good(row)]
        return [float(one) for one in found if isinstance(one, (int, float))]


def quiet(done: Sequence[Done]) -> list[Done]:
    """Without the disturbed ones, unless there are no others of their kind."""
    calm = {type(one.cell) for one in done if not one.disturbed}
    return [one for one in done if not one.disturbed or type(one.cell) not in calm]


def interleaved(cells: Sequence[CellT], runs: int) -> list[CellT]:
    """All of them, then all again the other way round: a machine that drifts favours nobody.

    The last round goes forward, so that rows are finished from the first to the last.
    """
    planned = []
    for run in range(runs):
        forward = (runs - 1 - run) % 2 == 0
        for cell in cells if forward else reversed(cells):
            planned.append(msgspec.structs.replace(cell, run=run))
    return planned


def row(
    name: str,
    results: Results,
    values: Callable[[list[Done]], Mapping[str, Value]],
    *,
    fixed: Mapping[str, Value] | None = None,
) -> Row:
    """Its values from the cells that went well, undisturbed if possible; the reason of the first
    that did not, else.

    `fixed` are values the row has in any case: what was varied, as a number. They need no column,
    since the row's name says the same to people; programs find them in the JSON and the CSV.
    """
    done, good = results.of(name), results.good(name)
    bad = [one for one in done if not one.good]
    known: dict[str, Value] = dict(fixed or {})
    if not good:
        first = bad[0] if bad else None
        status = first.status if first else answers.NOT_RUN
        reason = first.reason if first else "the study was stopped before it"
        return Row(name=name, values=known, status=status, reason=reason)
    said = ""
    if bad:
        said = f"{units.plural(len(bad), 'run')} of {len(done)} {bad[0].status}: {bad[0].reason}"
    return Row(name=name, values={**known, **values(quiet(good))}, reason=said, runs=len(good))


def epochs(done: Done, name: str, *, first: bool = False) -> list[float]:
    """A figure of the epochs a workload logged; the first counts only where it is the only one."""
    logged = [one for one in done.figures.get("epochs") or () if number_of(one, name) is not None]
    counted = logged if first or len(logged) < 2 else logged[1:]
    return [float(one[name]) for one in counted]


def epoch_means(done: Sequence[Done], name: str) -> list[float]:
    """The mean over the epochs of each run that logged the figure."""
    found = [epochs(one, name) for one in done]
    return [stats.mean(one) for one in found if one]


def timed(done: Sequence[Done]) -> list[Done]:
    """Those that were timed step by step; a row may have trained cells as well."""
    return [one for one in done if isinstance(one.cell, Timed)]


def costs(results: Results, cost: Callable[[Done], float | None]) -> Costs:
    """What the runs of every row cost, with their windows; without those that cost answers None."""
    known: dict[str, list[Timing]] = {}
    for name in results.rows:
        told = [(one, cost(one)) for one in results.good(name)]
        known[name] = [
            Timing(value, tuple(one.figures.get("windows") or ()), one.disturbed, one.busy)
            for one, value in told
            if value
        ]
    return Costs(known)


def sample_costs(results: Results) -> Costs:
    """Seconds a sample of every row that was timed."""

    def cost(one: Done) -> float | None:
        return number_of(one.figures, "sample_seconds") if timed([one]) else None

    return costs(results, cost)


def with_values(one: Row, **values: Value) -> Row:
    return msgspec.structs.replace(one, values={**one.values, **values})


def with_estimate(one: Row, column: str, found: Estimate | None) -> Row:
    """The figure with its interval, where more than one run tells of it; as it was without any."""
    if found is None:
        return one
    if found.low == found.high:
        return with_values(one, **{column: found.value})
    return msgspec.structs.replace(
        with_values(one, **{column: found.value}),
        intervals={**one.intervals, column: found.interval},
    )


def with_gain(one: Row, column: str, found: Speedup | None) -> Row:
    """How many times better than another row it is, with the interval of that ratio if known."""
    if found is None:
        return one
    made = with_values(one, **{column: found.ratio})
    if found.low == found.high:
        return made
    return msgspec.structs.replace(
        made, intervals={**one.intervals, column: (found.low, found.high)}
    )


def with_phases(cell: Timed) -> Timed:
    """The first run of a row is looked into as well, which takes some seconds more."""
    return msgspec.structs.replace(cell, phases=True) if cell.run == 0 else cell


def with_best(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    return [msgspec.structs.replace(one, best=one.name in names) for one in rows]


def nothing(rows: Sequence[Row]) -> str:
    """What there is to read where no row was measured."""
    run = [one for one in rows if not one.good and one.status != answers.NOT_RUN]
    if not run:
        return "Nothing was measured: the study was stopped before its first row was there."
    reasons = sorted({one.reason or one.status for one in run})
    if len(reasons) == 1:
        return f"Nothing was measured: {reasons[0].rstrip('.')}."
    named = sorted({f"{quoted(one)}: {one.reason or one.status}".rstrip(".") for one in run})
    return f"Nothing was measured. {'; '.join(named[:3])}."


def machines(done: Sequence[Done]) -> str:
    """A sentence where runs were spread over several machines; empty where they were not."""
    known = [node for one in done if isinstance(node := one.figures.get("node"), dict)]
    hosts = {str(node.get("host")) for node in known}
    kinds = {(str(node.get("processor")), str(node.get("gpu") or "")) for node in known}
    if len(hosts) < 2:
        return ""
    said = f" The runs were spread over {len(hosts)} machines"
    if len(kinds) == 1:
        return f"{said} of one kind."
    named = units.listed(sorted({gpu or processor for processor, gpu in kinds}))
    return f"{said} of {len(kinds)} kinds ({named}): what differs may be theirs."


def missing(rows: Sequence[Row]) -> str:
    """A sentence about the rows that have no figures; empty where all have."""
    left = Counter(one.status for one in rows if not one.good)
    many = [status for status, count in left.items() if count > NAMED or status == answers.NOT_RUN]
    few = [one for one in rows if not one.good and one.status not in many]
    names = units.listed([f"{quoted(one)} ({one.status})" for one in few])
    said = f" Without figures: {names}." if few else ""
    for status in many:
        was = f"{'was' if left[status] == 1 else 'were'} {status}"
        said += f" {units.plural(left[status], 'row')} {_BY_ITSELF.get(status, was)}."
    return said


def quoted(one: Row) -> str:
    """Its name within a sentence, whose own `and` must not be taken for the row's."""
    return f"'{one.name}'" if one.name.startswith(AND) else one.name


def series(name: str, at: Sequence[float | str], rows: Sequence[Row], column: str) -> Series:
    """One column of the rows, with its intervals where there are any, to be drawn."""
    ends = [one.intervals.get(column, (None, None)) for one in rows]
    known = any(column in one.intervals for one in rows)
    return Series(
        name=name,
        x=tuple(at),
        y=tuple(one.number(column) for one in rows),
        low=tuple(low for low, _ in ends) if known else (),
        high=tuple(high for _, high in ends) if known else (),
    )


def number_of(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name)
    return float(value) if isinstance(value, (int, float)) else None
