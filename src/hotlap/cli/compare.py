"""hotlap compare: what differs between two runs, and whether it is more than noise."""

from __future__ import annotations

from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotlap import comparisons
from hotlap.cli.console import deliver, show
from hotlap.cli.options import Json, one_of
from hotlap.cli.profile import check_writable
from hotlap.cli.verbs import Verb
from hotlap.comparisons import Comparison
from hotlap.errors import UsageError
from hotlap.trials.folder import HOME

if TYPE_CHECKING:
    from hotlap.api.results import Result


class Format(str, Enum):
    text = "text"
    markdown = "markdown"
    json = "json"


def register(app: typer.Typer) -> None:
    app.command(
        "compare",
        cls=Verb,
        help="Say what differs between two runs: profiles, tunings or studies. BEFORE and AFTER "
        "are folders of runs or files that --json wrote; without them the newest two in ./.hotlap "
        "are taken, and without AFTER the newest of that kind.",
        short_help="Say what differs between two runs.",
    )(compare)


def compare(
    before: Annotated[
        Path | None, typer.Argument(metavar="[BEFORE]", hidden=True, show_default=False)
    ] = None,
    after: Annotated[
        Path | None, typer.Argument(metavar="[AFTER]", hidden=True, show_default=False)
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="What to write: text, markdown or json (text).",
            show_default=False,
        ),
    ] = Format.text.value,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write to FILE instead of the terminal.",
            show_default=False,
        ),
    ] = None,
    json: Json = None,
) -> None:
    kind = one_of("--format", format, Format)
    for option, path in (("--output", output), ("--json", json)):
        if path is not None:
            check_writable(path, option=option)
    found = _compared(before, after)
    if json is not None:
        comparisons.save(found, json)
    _write(found, kind, output)


def _compared(before: Path | None, after: Path | None) -> Comparison:
    """What is not named is the newest of its kind that is kept here."""
    from hotlap.api import comparing, results

    if before is not None and after is not None:
        return comparing.compare(before, after)
    if before is not None:
        file = results.find(before)
        first = results.load(file)  # once: a pipe cannot be read again
        kind = results.kind(first)
        newest = next(results.of_kind(kind, without=file), None)
        if newest is None:
            raise UsageError(
                f"There is no other {kind} in {Path(HOME).absolute()} to compare {before} with. "
                "Name the second one as well."
            )
        return comparing.between((first, str(before)), _named(*newest))
    found = list(islice(results.of_kind(None), 2))
    if len(found) < 2:
        raise UsageError(
            f"There are no two runs of one kind in {Path(HOME).absolute()}. Name two: "
            "hotlap compare BEFORE AFTER"
        )
    return comparing.between(_named(*found[1]), _named(*found[0]))


def _named(file: Path, result: Result) -> tuple[Result, str]:
    return result, str(file.parent)


def _write(found: Comparison, format: Format, output: Path | None) -> None:
    if format is Format.text and output is None:
        from hotlap.reports import comparison

        show(comparison.render(found))
        return
    deliver(_rendered(found, format), output)


def _rendered(found: Comparison, format: Format) -> bytes:
    if format is Format.json:
        return comparisons.encode(found)
    if format is Format.markdown:
        from hotlap.reports import markdown

        return markdown.render_comparison(found).encode("utf-8", "backslashreplace")
    from hotlap.reports import comparison

    return comparison.plain(found).encode("utf-8", "backslashreplace")
