"""Where things are printed: results to stdout, everything about the run itself to stderr.

Whoever reads the results may go before they are complete (`hotlap tune ... | head`). That ends the
verb as Ctrl-C does, so that what was measured is kept, but without a word and with a code of its
own. Results that cannot be written (a full disk) end it in the same way, with a sentence.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from hotlap import records
from hotlap.errors import HotlapError
from hotlap.reports import wording

PIPED_WIDTH = 120  # of what no terminal gives a width; the table of a tuning needs most of it
DESERTED = 141  # what a shell says of a program that a closed pipe has ended
UNWRITABLE = 2
_deserted = False
_unwritable: OSError | None = None


class _Plain(Console):
    """Text of others has no power over the terminal: a record may come from anywhere."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            own = segment.control or segment.text.isprintable()
            yield segment if own else segment._replace(text=wording.visible(segment.text))


class _Results(_Plain):
    def on_broken_pipe(self) -> None:
        _stop()


def results() -> Console:
    return _Results(highlight=False, width=None if _is_bounded() else PIPED_WIDTH)


def width() -> int | None:
    """The columns that lines have; a file takes any."""
    return results().width if _is_bounded() else None


def _is_bounded() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def show(report: RenderableType) -> None:
    """Prints a report without the blanks that would fill its lines up to the terminal's width."""
    console = results()
    with heeding_readers():
        with console.capture() as drawn:
            console.print(report)
        text = "\n".join(line.rstrip() for line in drawn.get().splitlines())
        console.file.write(text.strip("\n") + "\n")
        console.file.flush()


def deliver(content: bytes, output: Path | None) -> None:
    """To the file, whose name is then printed; else to stdout, the same whatever its encoding."""
    if output is None:
        with heeding_readers():
            typer.echo(content, nl=False)
        return
    records.write(content, output)
    typer.echo(str(output))


@contextmanager
def heeding_readers() -> Iterator[None]:
    """Around whatever writes to stdout by itself."""
    try:
        yield
    except BrokenPipeError:
        _stop()
    except OSError as problem:
        _note(problem)
        raise KeyboardInterrupt from None


def is_unwritable(problem: OSError) -> bool:
    """Whether it comes from writing to what is full or broken; `leave` then says so."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        _note(problem)
    return _unwritable is problem


def _note(problem: OSError) -> None:
    global _unwritable
    _unwritable = _unwritable or problem


def stop_if_deserted() -> None:
    """Called while a command runs: the next line may be minutes away."""
    if not _has_reader():
        _stop()


def _stop() -> NoReturn:
    global _deserted
    _deserted = True
    raise KeyboardInterrupt


def _has_reader() -> bool:
    """Whether the other end of stdout is still there; a file or a terminal is its own."""
    try:
        number = sys.stdout.fileno()
        mode = os.fstat(number).st_mode
    except (AttributeError, OSError, ValueError):  # there is no stdout, or none with a number
        return True
    if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
        return True
    poll = select.poll()
    poll.register(number, 0)  # errors are told without being asked for
    return not poll.poll(0)


def is_deserted() -> bool:
    return _deserted


def leave(code: int) -> NoReturn:
    """Ends the process. Nothing that is still unwritten may complain afterwards."""
    problem: OSError | None = BrokenPipeError() if _deserted else _unwritable
    try:
        sys.stdout.flush()
    except OSError as another:
        problem = problem or another
    if problem is None:
        sys.exit(code)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(problem, BrokenPipeError):
        sys.exit(DESERTED)
    fail(HotlapError(f"The output cannot be written: {problem.strerror}."))
    sys.exit(UNWRITABLE)


def notices() -> Console:
    return _Plain(stderr=True, highlight=False)


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
