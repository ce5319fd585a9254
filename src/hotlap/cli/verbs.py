"""A verb as typer has it, but for its help and for options that stand in the wrong place."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperOption

from hotlap.cli import misplaced
from hotlap.cli.console import warn


class Verb(TyperCommand):
    """Its arguments stand in the first line and in what the help says of them, nowhere else."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = (one for one in self.params if one.param_type_name == "argument")
        return ["[OPTIONS]", *(str(one.metavar) for one in arguments)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        left: list[str] = super().parse_args(ctx, args)
        options = {
            name: not one.is_flag
            for one in self.params
            if isinstance(one, TyperOption)
            for name in one.opts
            if name.startswith("--") and name != "--help"
        }
        said = misplaced.note(str(self.name), options, ctx.params.get("command") or ())
        if said is not None:
            warn(said)
        return left
