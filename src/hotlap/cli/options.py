"""Options that several verbs share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Command = Annotated[
    list[str], typer.Argument(metavar="COMMAND", help="What you would type to train.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the whole result to this file.")]
Out = Annotated[Path | None, typer.Option(help="Keep runs in this folder instead of ./.hotlap.")]
InPlace = Annotated[
    bool, typer.Option("--in-place", help="Let the command write where it always does.")
]
# Options stand before the command; whatever comes after its first word is the command's own.
BEFORE_THE_COMMAND = {"allow_interspersed_args": False, "ignore_unknown_options": False}
