"""A page for each rule, and their index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from generating import pages
from generating.pages import DOCS
from hotlap.rules import RULES

FOLDER = DOCS / "rules"
SECTIONS = ("What it finds", "Why it matters", "When it is wrong", "What to do")
INTRO = """# Rules

A rule looks at a record and answers a finding, or nothing. It speaks only where it has
evidence. Findings are shown in this order: what stands in the way of the numbers first,
then what costs most, then notes.
"""


def made() -> Iterator[tuple[Path, str]]:
    rows = ["| rule | what it says |", "|---|---|"]
    for rule in RULES:
        one = pages.read(rule, SECTIONS)
        yield FOLDER / f"{one.name}.md", pages.page(one, back="[All rules](index.md)")
        rows.append(f"| {one.row} |")
    text = [pages.notice("src/hotlap/rules/__init__.py"), INTRO, "\n".join(rows) + "\n"]
    yield FOLDER / "index.md", "\n".join(text)
