"""The command line: one file per verb; the only place that prints and that knows exit codes."""

from __future__ import annotations

import difflib
import shlex
import signal
import sys

import typer

from hotlap import __version__
from hotlap.cli import compare, profile, report, run, streams, study, tune
from hotlap.cli.console import fail, is_deserted, is_unwritable, leave
from hotlap.errors import HotlapError, UsageError

app = typer.Typer(
    name="hotlap",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Make PyTorch training faster: see where a step goes, try what is known, prove it.",
    epilog="To begin with: hotlap profile train.py, then hotlap tune train.py. "
    "hotlap VERB --help says more.",
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
study.register(app)
report.register(app)
compare.register(app)


def _stop(number: int, frame: object) -> None:
    """A terminal that closes or a batch system's end: as if the user had pressed Ctrl-C."""
    raise KeyboardInterrupt


def _check_verb(words: list[str]) -> None:
    """`hotlap train.py` forgets the verb, `hotlap tnue train.py` misspells it."""
    verbs = [str(command.name) for command in app.registered_commands]
    if not words or words[0].startswith("-") or words[0] in verbs:
        return
    close = difflib.get_close_matches(words[0], verbs, n=1)
    if close:
        raise UsageError(f"{words[0]} is no verb of hotlap. Did you mean {close[0]}?")
    command = shlex.join(words)
    raise UsageError(
        f"{words[0]} is no verb of hotlap. To make this command faster: hotlap tune {command}  "
        f"To see where its steps go: hotlap profile {command}"
    )


def _read_help(words: list[str]) -> None:
    """`hotlap help` and `hotlap help tune` are what people try first."""
    if words[:1] == ["help"]:
        words[:] = [*words[1:2], "--help"]


def main() -> None:
    streams.prepare()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _stop)
    try:
        words = sys.argv[1:]
        _read_help(words)
        _check_verb(words)
        app(words)
    except HotlapError as error:
        if not is_deserted():
            fail(error)
        leave(error.exit_code)
    except KeyboardInterrupt:
        leave(130)
    except OSError as problem:
        if not is_unwritable(problem):
            raise
        leave(1)
    except SystemExit as done:
        if not isinstance(done.code, int):
            raise
        leave(done.code)
