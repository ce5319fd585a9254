"""Where things are printed: results to stdout, everything about the run itself to stderr."""

from __future__ import annotations

import os
import sys

from rich.console import Console, RenderableType
from rich.text import Text

from hotlap.errors import HotlapError

PIPED_WIDTH = 120  # of what no terminal gives a width; the table of a tuning needs most of it


def results() -> Console:
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(highlight=False, width=width)


def show(report: RenderableType) -> None:
    """Prints a report without the blanks that would fill its lines up to the terminal's width."""
    console = results()
    with console.capture() as drawn:
        console.print(report)
    text = "\n".join(line.rstrip() for line in drawn.get().splitlines())
    console.file.write(text.strip("\n") + "\n")


def notices() -> Console:
    return Console(stderr=True, highlight=False)


def fail(error: HotlapError) -> None:
    console = notices()
    output = getattr(error, "output", "")
    if output:
        console.print(Text("The end of the command's output:", style="dim"))
        for line in output.splitlines():
            console.print(Text("  " + line), soft_wrap=True)
        console.print()
    console.print(Text(f"hotlap: {error}", style="bold red"), soft_wrap=True)


def warn(text: str) -> None:
    notices().print(Text(f"hotlap: {text}", style="yellow"), soft_wrap=True)
