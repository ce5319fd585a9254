"""How the help of a verb looks: what is typed, in the words of its page, by whatever typer."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Verb(TyperCommand):
    """Its arguments stand in the first line and in what the help says of them, nowhere else."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = (one for one in self.params if one.param_type_name == "argument")
        return ["[OPTIONS]", *(str(one.metavar) for one in arguments)]
