"""The last line of hotlap run: what was applied, how far, and what was not."""

from pathlib import Path

import pytest

from hotlap.api.running import Ran
from hotlap.cli.run import said
from hotlap.recipes import Recipe

RECIPE = Recipe({"loader-workers": {"workers": 2}, "persistent-workers": {}})
CHANGED = "the script changes `epoch` of its data set while it trains"
BOTH = {"loader-workers": "num_workers=2", "persistent-workers": "persistent_workers=True"}


def ran(**what):
    known = {"applied": {}, "refused": {}, **what}
    return Ran(code=0, signal=None, recipe=RECIPE, **known)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ({"applied": BOTH}, "applied loader-workers, persistent-workers."),
        (
            {"applied": BOTH, "ended": {"persistent-workers": CHANGED}},
            f"applied loader-workers; applied at first: persistent-workers ({CHANGED}).",
        ),
        (
            {"applied": BOTH, "in_part": dict.fromkeys(BOTH, CHANGED)},
            f"applied in part: loader-workers, persistent-workers ({CHANGED}).",
        ),
        (
            {"refused": {"loader-workers": "no\nloader", "persistent-workers": "no workers"}},
            "applied nothing; not applied: loader-workers (no loader); "
            "persistent-workers (no workers).",
        ),
    ],
)
def test_one_line_says_what_was_applied_and_how_far(what, line):
    assert said(ran(**what)) == f"hotlap: {line}"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (None, "no recipe, so the command ran as it is (hotlap tune makes one)."),
        (Path("mine.toml"), "the recipe mine.toml is empty, so the command ran as it is."),
    ],
)
def test_an_empty_recipe_is_not_called_none(source, line):
    nothing = Ran(code=0, signal=None, recipe=Recipe(), source=source, applied={}, refused={})
    assert said(nothing) == f"hotlap: {line}"
