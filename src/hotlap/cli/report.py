"""hotlap report: what a run found, as a page to look at, for a pull request or for a program."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from hotlap import answers, records, tunings
from hotlap.answers import Answer
from hotlap.cli.console import heeding_readers
from hotlap.cli.profile import check_writable
from hotlap.errors import UsageError
from hotlap.records import Profile
from hotlap.trials.folder import HOME, RunFolder
from hotlap.tunings import Tuning


class Format(str, Enum):
    html = "html"
    markdown = "markdown"
    json = "json"
    csv = "csv"


def register(app: typer.Typer) -> None:
    app.command(
        "report",
        help="Write what a run found: a page to look at, Markdown, JSON or CSV.",
        short_help="Write what a run found as a page, Markdown, JSON or CSV.",
    )(report)


def report(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="A run's folder, or a file --json wrote; without it the newest run in ./.hotlap.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", help="What to write.", case_sensitive=False)
    ] = Format.html,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write to this file; otherwise the page goes into the run's folder, "
            "all else to the terminal.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Write the whole result to this file.", show_default=False),
    ] = None,
) -> None:
    for option, path in (("--output", output), ("--json", json)):
        if path is not None:
            check_writable(path, option=option)
    file = find(run)
    result = load(file)
    content = rendered(result, format, source=file)
    if json is not None:
        records.write(encode(result), json)
    if format is Format.html and output is None:
        output = page_for(file)
    if output is None:
        with heeding_readers():
            typer.echo(content, nl=False)  # bytes: the same whatever the terminal's encoding
        return
    records.write(content, output)
    typer.echo(str(output))


def find(run: Path | None) -> Path:
    """The file that holds the result."""
    if run is None:
        return _newest(Path(HOME))
    if run.is_dir():
        file = _result(run)
        if file is not None:
            return file
        if any(_result(one) for one in run.iterdir() if one.is_dir()):
            raise UsageError(f"{run} holds runs. Name one of them, such as {_newest(run).parent}.")
        raise UsageError(
            f"{run} holds no tuning.json, study.json or profile.json: it is no run's folder, or "
            "the run was ended before it had a result. Name another one."
        )
    if not run.exists():
        raise UsageError(f"There is no run {run}. Name a run's folder or the file --json wrote.")
    return run


def _result(folder: Path) -> Path | None:
    return next((file for file in _results(folder) if file.is_file()), None)


def _results(folder: Path) -> tuple[Path, ...]:
    names = RunFolder(folder)
    return names.tuning, names.study, names.result


def _newest(home: Path) -> Path:
    found = [_result(one) for one in home.iterdir() if one.is_dir()] if home.is_dir() else []
    files = [file for file in found if file is not None]
    if not files:
        raise UsageError(
            f"There is no run in {home.absolute()}. Name a run's folder, or make one with "
            "hotlap tune COMMAND."
        )
    return max(files, key=lambda file: (file.stat().st_mtime_ns, file.parent.name))


Result = Tuning | Answer | Profile


def load(file: Path) -> Result:
    text = records.read(file)
    newest = max(tunings.SCHEMA, answers.SCHEMA, records.SCHEMA)
    content = records.parse(text, source=str(file), newest=newest)
    if "trials" in content:
        return tunings.decode(text, source=str(file))
    if "study" in content:
        return answers.decode(text, source=str(file))
    return records.decode(text, source=str(file))


def encode(result: Result) -> bytes:
    if isinstance(result, Tuning):
        return tunings.encode(result)
    return answers.encode(result) if isinstance(result, Answer) else records.encode(result)


def rendered(result: Result, format: Format, *, source: Path) -> bytes:
    # Each is imported when it is asked for: help and the other verbs need none of them.
    if format is Format.json:
        return encode(result)
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
    own = file in _results(file.parent)
    return RunFolder(file.parent).report if own else file.with_suffix(".html")
