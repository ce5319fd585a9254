"""hotlap report: what a run found, as a page to look at, for a pull request or for a program."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from hotlap import records
from hotlap.answers import Answer
from hotlap.api import results
from hotlap.api.results import Result
from hotlap.cli.console import deliver
from hotlap.cli.options import one_of
from hotlap.cli.profile import check_writable
from hotlap.cli.verbs import Verb
from hotlap.errors import UsageError
from hotlap.records import Profile
from hotlap.trials.folder import RunFolder
from hotlap.tunings import Tuning


class Format(str, Enum):
    html = "html"
    markdown = "markdown"
    json = "json"
    csv = "csv"


def register(app: typer.Typer) -> None:
    app.command(
        "report",
        cls=Verb,
        help="Write what a run found: a page to look at, Markdown, JSON or CSV. RUN is a run's "
        "folder or a file that --json wrote; without it the newest run in ./.hotlap is taken.",
        short_help="Write what a run found as a page, Markdown, JSON or CSV.",
    )(report)


def report(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", hidden=True, show_default=False)
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="What to write: html, markdown, json or csv (html).",
            show_default=False,
        ),
    ] = Format.html.value,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write to FILE; otherwise the page goes into the run's folder, "
            "all else to the terminal.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the whole result to FILE.", show_default=False
        ),
    ] = None,
) -> None:
    kind = one_of("--format", format, Format)
    for option, path in (("--output", output), ("--json", json)):
        if path is not None:
            check_writable(path, option=option)
    file = results.find(run)
    result = results.load(file)
    content = rendered(result, kind, source=file)
    if json is not None:
        records.write(results.encode(result), json)
    if kind is Format.html and output is None:
        output = page_for(file)
    deliver(content, output)


def rendered(result: Result, format: Format, *, source: Path) -> bytes:
    # Each is imported when it is asked for: help and the other verbs need none of them.
    if format is Format.json:
        return results.encode(result)
    if format is Format.html:
        return _page(result).encode()
    if isinstance(result, Profile):
        raise UsageError(
            f"{source} is a profile; {format.value} lists the trials of a tuning or the rows of a "
            "study. Use --format html or --format json."
        )
    from hotlap.reports import csv, markdown

    if isinstance(result, Answer):
        of_answer = csv.render_answer if format is Format.csv else markdown.render_answer
        return of_answer(result).encode("utf-8", "backslashreplace")
    text = csv.render(result) if format is Format.csv else markdown.render(result)
    return text.encode("utf-8", "backslashreplace")


def _page(result: Result) -> str:
    from hotlap.reports import html

    if isinstance(result, Tuning):
        return html.render(result)
    return html.render_answer(result) if isinstance(result, Answer) else html.render_profile(result)


def page_for(file: Path) -> Path:
    """In the run's folder; beside a file that stands alone."""
    own = results.is_of_a_run(file)
    return RunFolder(file.parent).report if own else file.with_suffix(".html")
