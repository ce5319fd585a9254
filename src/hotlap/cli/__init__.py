"""The command line: one file per verb; the only place that prints and that knows exit codes."""

from __future__ import annotations

import signal
import sys

import typer

from hotlap import __version__
from hotlap.cli import profile, report, run, tune
from hotlap.cli.console import fail
from hotlap.errors import HotlapError

app = typer.Typer(
    name="hotlap",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Make PyTorch training faster: see where a step goes, try what is known, prove it.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"hotlap {__version__}")
        raise typer.Exit


@app.callback()
def hotlap(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Options of hotlap stand before the command, options of the script after it."""


profile.register(app)
tune.register(app)
run.register(app)
report.register(app)


def _stop(number: int, frame: object) -> None:
    """A terminal that closes or a batch system's end: as if the user had pressed Ctrl-C."""
    raise KeyboardInterrupt


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        app()
    except HotlapError as error:
        fail(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
