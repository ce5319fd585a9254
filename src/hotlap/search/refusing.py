"""What of a recipe was at work in a run: what was refused there is no part of what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from hotlap.recipes import Recipe
from hotlap.search import planning, rows
from hotlap.tunings import NOT_APPLICABLE, Run, Trial


def at_work(recipe: Recipe, run: Run) -> Recipe:
    """Without the refused parts, and without those that need them."""
    for name in run.refused:
        recipe = recipe.without(name)
    return recipe


def refused(recipe: Recipe, run: Run, reference: Recipe) -> Iterator[Trial]:
    """A row for each part that did not come to work, of those the reference does not have."""
    ran = at_work(recipe, run)
    for name, settings in recipe.changes.items():
        if name not in ran.changes and reference.changes.get(name) != settings:
            label, part = planning.label(name, settings), Recipe({name: settings})
            why = run.refused.get(name, "what it needs was refused")
            yield rows.row(label, part, NOT_APPLICABLE, why, [run], against=reference.label())
