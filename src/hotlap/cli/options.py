"""Options that several verbs share, said once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from hotlap.errors import UsageError

Kind = TypeVar("Kind", bound=Enum)
Command = Annotated[list[str] | None, typer.Argument(metavar="COMMAND...", hidden=True)]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the whole result to FILE.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Keep runs in DIR instead of ./.hotlap.")
]
InPlace = Annotated[
    bool, typer.Option("--in-place", help="Let the command write where it always does.")
]
COMMAND = "COMMAND is what you would type to train: train.py --epochs 90, torchrun ..., a script."
# Options stand before the command; whatever comes after its first word is the command's own.
BEFORE_THE_COMMAND = {"allow_interspersed_args": False, "ignore_unknown_options": False}


def whole(option: str) -> Callable[[str], int]:
    """Reads an option's whole number; what is none is told in a sentence of ours."""

    def read(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{option} is {text}; it must be a whole number.") from None

    return read


def one_of(option: str, text: str, kinds: type[Kind]) -> Kind:
    """To be asked by the verb itself: as a parser of typer before 0.28 its answer came out None."""
    try:
        return kinds(text.lower())
    except ValueError:
        known = ", ".join(str(one.value) for one in kinds)
        raise UsageError(f"{option} is {text}; it is one of {known}.") from None


def number(option: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{option} is {text}; it must be a number.") from None

    return read


def names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Of an option that was given several times, or once with commas."""
    parts = [[part.strip() for part in text.split(",")] for text in given or ()]
    return tuple(name for one in parts for name in (list(filter(None, one)) or one[:1]))
