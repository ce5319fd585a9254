"""hotlap.run: the real training under a recipe. The command is the user's own in every way."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hotlap import optimizations
from hotlap.api.profiling import as_words, working_directory
from hotlap.errors import UsageError
from hotlap.recipes import FILE, Recipe
from hotlap.trials import command as commands
from hotlap.trials import kept_out, scratch
from hotlap.trials.measuring import read_applied, read_limits

# Passed on to the command; the others either come from the terminal to both, or cannot be caught.
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")
_DEATH_SIGNAL = 1  # prctl(PR_SET_PDEATHSIG)


@dataclass(frozen=True, kw_only=True)
class Ran:
    code: int  # as a shell would say it: 128 + n where signal n ended the command
    signal: int | None
    recipe: Recipe
    source: Path | None = None  # the recipe's file
    applied: dict[str, str]
    refused: dict[str, str]
    ended: dict[str, str] = field(default_factory=dict)  # of those applied: why not to the end
    in_part: dict[str, str] = field(default_factory=dict)  # of those applied: why not everywhere


def run(
    command: str | Sequence[str],
    *,
    recipe: Recipe | str | os.PathLike[str] | None = None,
    started: Callable[[Recipe], None] = lambda recipe: None,
) -> Ran:
    """Runs a training command for real under a recipe: stdin, stdout, files and signals untouched.

    recipe: a `Recipe` or its file; without one ./hotlap.toml where there is one, else none.
    """
    words = as_words(command)
    working = working_directory()
    chosen, source = _choose(recipe, working)
    resolved = commands.resolve(words, folder=working)
    started(chosen)
    if not chosen:
        code, number = _wait(resolved, dict(os.environ))
        return Ran(code=code, signal=number, recipe=chosen, source=source, applied={}, refused={})
    folder = scratch.make()
    try:
        settings = {"recipe": dict(chosen.changes), "watch": False, "forgiving": True}
        (folder / "settings.json").write_text(json.dumps(settings))
        variables = optimizations.environment(dict(chosen.changes), dict(os.environ))
        environment = commands.environment(
            os.environ, trial=folder, variables=variables, watched=False
        )
        code, number = _wait(resolved, environment)
        applied, refused = read_applied(folder)
        ended, in_part = read_limits(folder)
        outside = kept_out.read(folder)
    finally:
        scratch.remove(folder)
    never = outside.why if outside else "the script never came to where it applies"
    for name in chosen.changes:
        if name not in applied:
            refused.setdefault(name, never)
    refused = {name: why for name, why in refused.items() if name not in applied}
    return Ran(
        code=code,
        signal=number,
        recipe=chosen,
        source=source,
        applied=applied,
        refused=refused,
        ended=ended,
        in_part=in_part,
    )


def _choose(
    recipe: Recipe | str | os.PathLike[str] | None, working: Path
) -> tuple[Recipe, Path | None]:
    """The recipe, and the file it is from."""
    if isinstance(recipe, Recipe):
        return Recipe.of(recipe.changes), None
    if recipe is not None:
        given: object = recipe
        if not isinstance(given, (str, os.PathLike)):
            kind = type(given).__name__
            raise UsageError(f"recipe is of type {kind}; give a hotlap.Recipe or its file.")
        if not Path(recipe).exists():
            raise UsageError(f"The recipe {recipe} is not there. Make one with hotlap tune.")
        return Recipe.load(recipe), Path(recipe)
    here = working / FILE
    return (Recipe.load(here), here) if here.exists() else (Recipe(), None)


def _wait(words: list[str], environment: dict[str, str]) -> tuple[int, int | None]:
    try:
        process = subprocess.Popen(
            words, env=environment, preexec_fn=_end_with_us, pass_fds=scratch.locks()
        )
    except OSError as problem:
        raise UsageError(
            f"The command {words[0]} could not be started: {problem.strerror}."
        ) from problem
    with _signals_go_to(process):
        code = process.wait()
    return (code, None) if code >= 0 else (128 - code, -code)


def _end_with_us() -> None:
    """Between fork and exec: the command ends if hotlap is killed, and leaves nothing running."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)


def _in_a_terminal() -> bool:
    """Whether keys typed there reach the command without us: it is in the foreground."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def _signals_go_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ctrl-C and Ctrl-\\ reach the command from the terminal; the others are handed on."""
    before = {}
    typed = ("SIGINT", "SIGQUIT")
    forwarded = _FORWARDED if _in_a_terminal() else (*_FORWARDED, *typed)

    def hand_on(number: int, frame: object) -> None:
        process.send_signal(number)

    try:
        for name in typed:
            number = getattr(signal, name)
            before[number] = signal.signal(number, lambda n, f: None)
        for name in forwarded:
            number = getattr(signal, name)
            before.setdefault(number, signal.getsignal(number))
            signal.signal(number, hand_on)
    except ValueError:  # not the main thread: signals go where they go
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
