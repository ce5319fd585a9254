"""A page for each study, and their index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from generating import pages
from generating.pages import DOCS
from hotlap.studies import STUDIES
from hotlap.studies.study import Study

FOLDER = DOCS / "studies"
SECTIONS = ("What it shows", "How it is measured", "How to read it", "When it misleads")
INTRO = """# Studies

The classic experiments on training, ready to run: `hotlap study NAME`, see [study](../study.md).
Each trains hotlap's own plain models with plain scripts, every cell in a fresh process, and answers
one question with a table, a picture and a sentence or two.
"""


def made() -> Iterator[tuple[Path, str]]:
    rows = ["| study | question |", "|---|---|"]
    for module in STUDIES:
        one = pages.read(module, SECTIONS)
        text = pages.page(one, facts=facts(module), back="[All studies](index.md)")
        yield FOLDER / f"{one.name}.md", text
        rows.append(f"| [{one.name}]({one.name}.md) | {module.QUESTION} |")
    source = "src/hotlap/studies/__init__.py"
    yield FOLDER / "index.md", "\n".join([pages.notice(source), INTRO, *rows, ""])


def facts(module: Study) -> str:
    """The question, and what the table has."""
    lines = [
        ("question", module.QUESTION),
        ("columns", ", ".join(column.title for column in module.COLUMNS)),
        ("run it", f"`hotlap study {module.NAME}`, or with `--quick` to see that it works"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in lines)])
