"""hotlap study: the classic experiments on training, with a table, a picture and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from hotlap import answers, api
from hotlap.answers import NOT_RUN, Answer, Column, Row
from hotlap.cli.console import heeding_readers, results, show, warn, width
from hotlap.cli.options import Json, Out, whole
from hotlap.cli.profile import Live, check_writable, live
from hotlap.cli.verbs import Verb
from hotlap.errors import Interrupted, NothingMeasured, UsageError
from hotlap.reports import study as report
from hotlap.reports import wording
from hotlap.studies import STUDIES
from hotlap.studies.study import Study


def register(app: typer.Typer) -> None:
    app.command(
        "study",
        cls=Verb,
        help="Run one of the classic experiments on training and say what it shows. NAME is one "
        "of those that --list shows.",
        short_help="Run one of the classic experiments on training.",
    )(study)


def study(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", hidden=True, show_default=False)
    ] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="Show which studies there are, and exit.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Seconds on a small model: to see that it works.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="cpu or cuda; without it the GPU, if any.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="CIFAR-10 as a folder or archive of JPEGs; without it made images.",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            metavar="N",
            parser=whole("--epochs"),
            help="Epochs of each training; without it the study's own.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            metavar="N",
            parser=whole("--seeds"),
            help="Runs of each row; without it the study's own.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last such study that was stopped.")
    ] = False,
    slurm: Annotated[
        str | None,
        typer.Option(
            "--slurm",
            metavar="OPTIONS",
            help="Run each cell as a SLURM job with these options of sbatch, as one word.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=whole("--jobs"),
            help="With --slurm: so many jobs at once; without it one.",
            show_default=False,
        ),
    ] = None,
    json: Json = None,
    out: Out = None,
) -> None:
    if list_them:
        _list()
        return
    if name is None:
        raise UsageError("Name a study: hotlap study --list shows which there are.")
    if json is not None:
        check_writable(json)
    table = _Growing()
    try:
        with live() as state:
            table.pauses(state)
            result = api.study(
                name,
                quick=quick,
                device=device,
                data=data,
                epochs=epochs,
                seeds=seeds,
                resume=resume,
                slurm=slurm,
                jobs=jobs,
                out=out,
                warn=table.warn,
                progress=state,
                begun=table.begin,
                tell=table.add,
            )
    except (Interrupted, NothingMeasured) as error:
        if error.answer is not None:
            _finish(error.answer, json, table)
        raise
    _finish(result, json, table)


def _list() -> None:
    width = max(len(one.NAME) for one in STUDIES)
    for one in STUDIES:
        results().print(Text(f"{one.NAME.ljust(width)}  {one.QUESTION}"), soft_wrap=True)


def _finish(answer: Answer, json: Path | None, table: _Growing) -> None:
    try:
        table.complete(answer)
        show("")
        show(report.outcome(answer))
        table.tell([Text(""), *report.places(answer)])
    finally:
        if json is not None:
            answers.save(answer, json)


class _Growing:
    """The table: a row is printed as soon as its last cell has been run.

    Later runs tell more of the noise, and so of the intervals of rows that stand there already:
    where one has changed by the end, the table is printed again.
    """

    def __init__(self) -> None:
        self._live: Live | None = None
        self._console = results()
        self._columns: tuple[Column, ...] = ()
        self._name = report.NAME
        self._printed: dict[str, str] = {}

    def pauses(self, live: Live) -> None:
        """What moves on the screen, and makes room for a line."""
        self._live = live

    def warn(self, text: str) -> None:
        with self._room():
            warn(text)

    def begin(
        self,
        study: Study,
        columns: Sequence[Column],
        rows: Sequence[str],
        machine: dict[str, Any],
    ) -> None:
        self._name = report.named(rows)
        self._columns = report.fitting(columns, width(), name=self._name)
        with self._room():
            show(report.intro(study.NAME, study.QUESTION, wording.on(machine)))
            show("")
        gone = report.left_out(columns, self._columns)
        if gone is not None:
            with self._room():
                show(gone)
        self._print(self._header())

    def add(self, row: Row) -> None:
        line = self._line(row)
        self._printed[row.name] = line.plain
        self._print(line)

    def complete(self, answer: Answer) -> None:
        """The rows as they are in the end."""
        self._live = None
        made = [row for row in answer.rows if row.status != NOT_RUN]
        lines = {row.name: self._line(row) for row in made}
        changed = [line for name, line in lines.items() if line.plain != self._printed.get(name)]
        if lines.keys().isdisjoint(self._printed):  # stopped before any row had all of its runs
            self.tell(list(lines.values()))
            return
        if not changed:
            return
        show("")
        several = any(row.runs > 1 for row in made)
        so_far = "" if answer.complete else " so far"
        title = f"With all runs{so_far}" if several else "What the runs of other rows have changed"
        self._print(Text(f"  {title}:", style="dim"))
        self._print(self._header())
        for line in lines.values() if several else changed:
            self._print(line)

    def _header(self) -> Text:
        return report.header(self._columns, name=self._name)

    def _line(self, row: Row) -> Text:
        return report.line(row, self._columns, name=self._name)

    def tell(self, lines: Sequence[Text]) -> None:
        for line in lines:
            self._print(line)

    def _room(self) -> AbstractContextManager[None]:
        return self._live.paused() if self._live is not None else nullcontext()

    def _print(self, line: Text) -> None:
        with self._room(), heeding_readers():
            self._console.print(line, soft_wrap=True)
            self._console.file.flush()
