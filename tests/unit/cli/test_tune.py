"""How a tuning's table grows on the terminal."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

import sample_tunings

from hotlap.cli import options, tune

LIVE: Any = SimpleNamespace(paused=nullcontext)


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("untried", [False, True])
def test_one_blank_line_stands_between_what_is_shown(
    capsys: pytest.CaptureFixture[str], rows: int, untried: bool
) -> None:
    found: Any = sample_tunings.tuning()
    table: Any = tune._Growing(LIVE, "speed")
    table.begin(found.baseline, None)
    for trial in found.trials[:rows]:
        table.add(trial)
    table.untried = list(found.trials[-1:]) if untried else []
    table.end()
    tune._finish(found, None, recipe=None)
    shown = capsys.readouterr().out
    assert "\n\n\n" not in shown.partition(found.summary)[0]
    assert shown.count("speed-up (95 %)") == bool(rows)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, ()),
        (["a", "b"], ("a", "b")),
        (["a,b", "c"], ("a", "b", "c")),
        (["a, b ,"], ("a", "b")),
        ([""], ("",)),  # a word too few is no leave to try everything
        ([" , "], ("",)),
    ],
)
def test_names_come_with_commas_or_one_by_one(
    given: list[str] | None, names: tuple[str, ...]
) -> None:
    assert options.names(given) == names
