"""Writes what the docs take from the code: a page per rule, optimization and study, the
settings of a recipe, the fields of the records, figures of recorded benchmarks.

    python docs/generate.py            writes
    python docs/generate.py --check    exits 1 and names the pages that are stale

A whole page is written for each rule, optimization and study. In a page written by hand, what
stands between `<!-- begin NAME -->` and `<!-- end NAME -->` is replaced. A docstring without its
four sections, or a field without a description, ends in an error. The parts are in
docs/generating/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
for folder in (DOCS, ROOT / "src"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from generating import (  # noqa: E402
    agreement,
    answer_fields,
    comparison_fields,
    false_positives,
    optimizations,
    overhead,
    profile_fields,
    reversible,
    rules,
    search,
    studies,
    tables,
    tuning_fields,
)
from generating.pages import Missing, replaced  # noqa: E402

from hotlap import answers, comparisons, records, tunings  # noqa: E402

FOLDERS = (rules.FOLDER, optimizations.FOLDER, studies.FOLDER)  # all pages in them are generated


def profile_tables() -> str:
    tables.complete(records, profile_fields.FIELDS, without={records.Record})  # Profile has them
    parts = [tables.fields(profile_fields.FIELDS)]
    for name, keys in (
        ("environment", profile_fields.ENVIRONMENT),
        ("script", profile_fields.SCRIPT),
    ):
        parts.append(f"### {name}\n\n| key | meaning |\n|---|---|")
        for words, meaning in keys.items():
            shown = ", ".join(f"`{key}`" for key in words.split(", "))
            parts.append(f"| {shown} | {meaning} |")
        parts.append("")
    return "\n".join(parts).rstrip()


def tuning_tables() -> str:
    tables.complete(tunings, tuning_fields.FIELDS, without=set())
    elsewhere = {records.Profile: "record.md"}
    return tables.fields(tuning_fields.FIELDS, elsewhere=elsewhere).rstrip()


def answer_tables() -> str:
    tables.complete(answers, answer_fields.FIELDS, without={answers.Cell})  # its kinds have them
    return tables.fields(answer_fields.FIELDS).rstrip()


def comparison_tables() -> str:
    tables.complete(comparisons, comparison_fields.FIELDS, without=set())
    elsewhere = {tunings.Speedup: "tune.md", tunings.Guard: "tune.md"}
    return tables.fields(comparison_fields.FIELDS, elsewhere=elsewhere).rstrip()


def pages() -> dict[Path, str]:
    """Every page that is generated, or holds a generated part, as it should be."""
    wanted = {**dict(rules.made()), **dict(optimizations.made()), **dict(studies.made())}
    for file, name, content in (
        ("record.md", "fields", profile_tables()),
        ("tune.md", "fields", tuning_tables()),
        ("study.md", "fields", answer_tables()),
        ("compare.md", "fields", comparison_tables()),
        ("tune.md", "false-positives", false_positives.sentences()),
        ("tune.md", "search", search.tables()),
        ("recipes.md", "settings", optimizations.settings_table()),
        ("measurement.md", "overhead", overhead.table()),
        ("measurement.md", "agreement", agreement.tables()),
        ("models.md", "costs", reversible.costs()),
        ("models.md", "drift", reversible.drift()),
    ):
        before = wanted.get(DOCS / file) or (DOCS / file).read_text()
        wanted[DOCS / file] = replaced(before, name, content)
    return wanted


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the generated pages of the docs.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    options = parser.parse_args()
    try:
        wanted = pages()
    except Missing as problem:
        sys.exit(f"docs/generate.py: {problem}")
    made = {path for folder in FOLDERS for path in folder.glob("*.*")}
    left = {path for path in made if path.suffix in (".md", ".svg")} - wanted.keys()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if options.check:
        for path in sorted([*stale, *left]):
            print(f"{path.relative_to(ROOT)} is stale: run `make docs`")
        sys.exit(1 if stale or left else 0)
    for folder in FOLDERS:
        folder.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(wanted[path])
    for path in left:  # the page of a rule or an optimization that is gone
        path.unlink()


if __name__ == "__main__":
    main()
