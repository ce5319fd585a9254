"""Markdown for a pull request: it says the same as the page, and its cells hold."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sample_tunings as sample

from hotlap import tunings
from hotlap.reports import markdown
from hotlap.tunings import Trial

HOSTILE = "a | b `c` <script>alert(1)</script>\n# @someone *now* [x](http://example.org) ```"


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def tables(text: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def test_it_starts_with_the_gain_and_its_interval() -> None:
    first = markdown.render(sample.tuning()).splitlines()[0]
    assert first.startswith("**2.40× as fast** (95 % interval 2.36 to 2.45). ")


def test_it_shows_every_trial_with_its_status_and_reason() -> None:
    text = markdown.render(sample.tuning())
    for trial in sample.trials():
        starts = tuple(f"| {trial.name} {sign}" for sign in ("|", "=", "(kept) |"))
        row = next(line for line in text.splitlines() if line.startswith(starts))
        assert (" (kept) |" in row) == trial.kept
        assert trial.status in row
        assert trial.reason.replace("_", "\\_") in row


def test_the_recipe_is_a_block_of_toml_and_the_command_one_of_shell() -> None:
    text = markdown.render(sample.tuning())
    assert "```toml\n# 2.40× (2.36 to 2.45) on train.py --epochs 90\nschema = 1\n" in text
    assert "The recipe, `.hotlap/tune-" in text, "a hotlap.toml that is there may be another one"
    assert "```sh\nhotlap run --recipe .hotlap/tune-" in text
    assert "recipe.toml train.py --epochs 90\n```" in text


def test_every_row_has_as_many_cells_as_its_head() -> None:
    bad = sample.measured(HOSTILE, tunings.SLOWER, 0.9, reason=HOSTILE, against=HOSTILE)
    part = sample.winner().parts[0]
    text = markdown.render(
        sample.tuning(
            trials=(bad, Trial(name=HOSTILE, recipe={}, status=tunings.FAILED, reason=HOSTILE)),
            winner=sample.winner(parts=(part, sample.Part(**{**HAND, "by_hand": HOSTILE}))),
        )
    )
    for table in tables(text):
        assert len({cells(line) for line in table}) == 1, table


HAND = {"name": "compile", "settings": {}, "numerics": "close"}


def test_nobodys_words_become_markup() -> None:
    text = markdown.render(
        sample.tuning(summary=HOSTILE, notes=(HOSTILE, "- not a list"), command=("a.py", HOSTILE))
    )
    outside = re.sub(r"(`{3,})\w*\n.*?\n\1", "", text, flags=re.DOTALL)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert not re.search(r"(?<!\\)<script", outside)
    assert "@someone" not in outside
    assert "\n# " not in outside
    assert "\n- " not in outside


def test_a_block_is_fenced_longer_than_what_it_holds() -> None:
    text = markdown.render(sample.tuning(command=("a.py", "````")))
    assert "`````sh\n" in text


def test_without_a_winner_there_is_a_sentence_and_no_recipe() -> None:
    text = markdown.render(sample.tuning(winner=None, summary="Nothing is faster."))
    assert text.startswith("**Nothing is faster.**")
    assert "toml" not in text
    assert "None" not in text


def test_with_nothing_tried_it_is_still_a_report() -> None:
    text = markdown.render(sample.tuning(winner=None, trials=(), summary="", complete=False))
    assert "stopped early" in text
    assert "None" not in text
    assert "nan" not in text


@pytest.mark.parametrize("against", ["baseline", "tf32"])
def test_a_bundle_says_what_is_in_it_also_where_it_failed(against: str) -> None:
    recipe: dict[str, dict[str, Any]] = {"channels-last": {}, "tf32": {}}
    failed = Trial(name="everything promising", recipe=recipe, status="failed", against=against)
    text = markdown.render(sample.tuning(trials=(failed,)))
    assert "| everything promising = tf32 + channels-last | failed |" in text


def test_markdown_that_is_printed_has_no_power_over_the_terminal():
    hostile = sample.tuning(summary="fast\x1b[2J\x1b]0;title\x07er", command=("train\x1b[31m.py",))
    text = markdown.render(hostile)
    assert "\x1b" not in text
    assert "faster" in text
