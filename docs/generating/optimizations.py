"""A page for each optimization, and their index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generating import pages
from generating.pages import DOCS, Missing
from hotlap.optimizations import OPTIMIZATIONS, Optimization, bounds
from hotlap.recipes import Recipe

FOLDER = DOCS / "optimizations"
SECTIONS = ("What it does", "Why it helps", "When it does not help", "By hand")
NUMERICS = {
    "identical": "the same arithmetic",
    "close": "the same on average; rounding or random numbers differ",
    "changes": "what is learned may differ",
}
EXAMPLE = 4  # of a setting that is a number
INTRO = """# Optimizations

Known ways to make training faster or smaller. Each is applied from outside: the script is not
edited. `hotlap tune` decides which of them apply to a command and tries those, see
[tune](../tune.md); a [recipe](../recipes.md) names the ones to train with. They are applied in
this order.
"""
AFTER = """`numerics` says what becomes of the arithmetic.

| numerics | meaning | what a tuning asks |
|---|---|---|
| `identical` | The same arithmetic. | The guard must not have found a change. |
| `close` | The same on average; rounding or random numbers differ. | The guard must have passed. |
| `changes` | What is learned may differ. | Never tried without `--allow NAME`. |

[guard](../tune.md#the-guard) tells what is compared and what that can show.

## Not offered

**deferred-scalars**, reading `.item()` values some steps later. A script's `.item()` must return a
real number at once: it is compared, formatted, added up, written to files. A stand-in that becomes
a number later would be safe in some scripts and wrong in others, and nothing outside the script
can tell which. The rule [host-waits](../rules/host-waits.md) names the line instead.

## Your own

One file, tried without changing hotlap: see
[CONTRIBUTING](../../CONTRIBUTING.md#adding-an-optimization).
"""


def made() -> Iterator[tuple[Path, str]]:
    rows = ["| optimization | what it is | numerics |", "|---|---|---|"]
    for module in OPTIMIZATIONS:
        one = pages.read(module, SECTIONS)
        text = pages.page(
            one,
            facts=facts(module),
            more=examples(module),
            back="[All optimizations](index.md)",
        )
        yield FOLDER / f"{one.name}.md", text
        rows.append(f"| {one.row} | `{module.NUMERICS}` |")
    source = "src/hotlap/optimizations/__init__.py"
    yield FOLDER / "index.md", "\n".join([pages.notice(source), INTRO, *rows, "", AFTER])


def settings_table() -> str:
    """What may stand in a recipe."""
    rows = ["| optimization | settings | numerics |", "|---|---|---|"]
    for module in OPTIMIZATIONS:
        name = f"[{module.NAME}](optimizations/{module.NAME}.md)"
        settings = "; ".join(_settings(module)) or "none"
        rows.append(f"| {name} | {settings} | `{module.NUMERICS}` |")
    return "\n".join(rows)


def facts(module: Optimization) -> str:
    """Numerics, settings, and what it goes together with."""
    if module.NUMERICS not in NUMERICS:
        raise Missing(f"{module.NAME} has the numerics {module.NUMERICS!r}, which has no words.")
    numerics = f"`{module.NUMERICS}`: {NUMERICS[module.NUMERICS]}"
    if module.NUMERICS == "changes":
        numerics += f"; needs `--allow {module.NAME}`"
    lines = [
        ("numerics", numerics),
        ("settings", "; ".join(_settings(module)) or "none"),
        ("needs", _links(module.NEEDS)),
        ("not together with", _links(_conflicts(module))),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in lines)])


def _settings(module: Optimization) -> Iterator[str]:
    for name, kind in module.SETTINGS.items():
        if kind is int:
            least, most = bounds(module, name)
            must = " (required)" if name in getattr(module, "REQUIRED", ()) else ""
            yield f"`{name}`: a whole number from {least} to {most}{must}"
        else:
            words = [f"`{word}`" for word in kind]
            yield f"`{name}`: " + " or ".join([", ".join(words[:-1]), words[-1]])


def _conflicts(module: Optimization) -> list[str]:
    """Said by either of the two."""
    return [
        other.NAME
        for other in OPTIMIZATIONS
        if other.NAME in module.CONFLICTS or module.NAME in other.CONFLICTS
    ]


def _links(names: Any) -> str:
    return ", ".join(f"[{name}]({name}.md)" for name in names) or "none"


def examples(module: Optimization) -> str:
    """The lines one would write, and the recipe that does the same."""
    settings = {name: EXAMPLE if kind is int else kind[0] for name, kind in module.SETTINGS.items()}
    recipe = Recipe({**{need: {} for need in module.NEEDS}, module.NAME: settings}).to_toml()
    return (
        f"```\n{module.by_hand(settings)}\n```\n\n## In a recipe\n\n```toml\n{recipe.rstrip()}\n```"
    )
