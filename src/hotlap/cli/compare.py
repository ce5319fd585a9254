"""hotlap compare: what differs between two runs, and whether it is more than noise."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from hotlap import comparisons, records
from hotlap.cli.console import heeding_readers, show
from hotlap.cli.options import Json
from hotlap.cli.profile import check_writable
from hotlap.comparisons import Comparison
from hotlap.errors import UsageError
from hotlap.trials.folder import HOME


class Format(str, Enum):
    text = "text"
    markdown = "markdown"
    json = "json"


def register(app: typer.Typer) -> None:
    app.command(
        "compare",
        help="Say what differs between two runs: profiles, tunings or studies.",
        short_help="Say what differs between two runs.",
    )(compare)


def compare(
    before: Annotated[
        Path | None,
        typer.Argument(
            metavar="[BEFORE]",
            help="A run's folder, or a file --json wrote; without it the newest but one.",
            show_default=False,
        ),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Argument(
            metavar="[AFTER]",
            help="Another one of its kind; without it the newest in ./.hotlap.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", help="What to write.", case_sensitive=False)
    ] = Format.text,
    output: Annotated[
        Path | None,
        typer.Option(help="Write to this file instead of the terminal.", show_default=False),
    ] = None,
    json: Json = None,
) -> None:
    from hotlap.api.comparing import compare as compared

    for option, path in (("--output", output), ("--json", json)):
        if path is not None:
            check_writable(path, option=option)
    found = compared(*_chosen(before, after))
    if json is not None:
        comparisons.save(found, json)
    _write(found, format, output)


def _chosen(before: Path | None, after: Path | None) -> tuple[Path, Path]:
    """What is not named is the newest of its kind that is kept here."""
    from hotlap.api import results

    if before is not None and after is not None:
        return before, after
    if before is not None:
        file = results.find(before)
        kind = results.kind(results.load(file))
        newest = next(results.of_kind(kind, without=file), None)
        if newest is None:
            raise UsageError(
                f"There is no other {kind} in {Path(HOME).absolute()} to compare {before} with. "
                "Name the second one as well."
            )
        return before, newest[0].parent
    files = [file.parent for file, _ in results.of_kind(None)]
    if len(files) < 2:
        raise UsageError(
            f"There are no two runs of one kind in {Path(HOME).absolute()}. Name two: "
            "hotlap compare BEFORE AFTER"
        )
    return files[1], files[0]


def _write(found: Comparison, format: Format, output: Path | None) -> None:
    if format is Format.text and output is None:
        from hotlap.reports import comparison

        show(comparison.render(found))
        return
    content = _rendered(found, format)
    if output is None:
        with heeding_readers():
            typer.echo(content, nl=False)
        return
    records.write(content, output)
    typer.echo(str(output))


def _rendered(found: Comparison, format: Format) -> bytes:
    if format is Format.json:
        return comparisons.encode(found)
    if format is Format.markdown:
        from hotlap.reports import markdown

        return markdown.render_comparison(found).encode("utf-8", "backslashreplace")
    from hotlap.reports import comparison

    return comparison.plain(found).encode("utf-8", "backslashreplace")
