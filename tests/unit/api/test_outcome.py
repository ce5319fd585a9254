"""The sentence a tuning ends with: never one that its rows contradict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

import sample_tunings

from hotlap.api.outcome import sentence
from hotlap.search.comparing import Spread
from hotlap.search.judging import ONLY_FILLED
from hotlap.search.tuner import Found
from hotlap.tunings import (
    CHANGED,
    FAILED,
    FASTER,
    NOT_APPLICABLE,
    SAME,
    SKIPPED,
    UNPROVEN,
    Noise,
    Part,
    Run,
    Speedup,
    Trial,
)

NOISE = Noise(runs=3, spread=0.03, low=0.9, high=1.1)
RUN = Run(folder="x", seconds=1.0)


def row(status: str, ratio: float | None = None, **more: Any) -> Trial:
    speedup = None if ratio is None else Speedup(ratio=ratio, low=ratio * 0.9, high=ratio * 1.1)
    more = {"name": "compile default", "recipe": {"compile": {}}, "runs": (RUN,), **more}
    return Trial(status=status, speedup=speedup, overall=speedup, **more)


def said(*trials: Trial, **more: Any) -> str:
    spread, spent = Spread(deviation=0.03, degrees=3.0), more.pop("spent", False)
    found = Found(trials=list(trials), spread=spread, spent=spent)
    return sentence(found, NOISE, more.pop("goal", "speed"), **more)


def test_rows_that_failed_were_tried() -> None:
    text = said(row(FAILED), row(FAILED, recipe={"threads": {}}))
    assert text == "2 recipes tried, and none could be measured: 2 failed."


def test_a_part_that_was_refused_in_a_run_of_others_is_no_recipe_that_was_tried() -> None:
    refused = row(NOT_APPLICABLE, recipe={"sample-cache": {}}, runs=(RUN,))
    other = row(SAME, 1.0, recipe={"threads": {}}, runs=(Run(folder="y", seconds=1.0),))
    assert "(2 recipes)" in said(refused, row(SAME, 1.0), other)
    assert "(2 recipes)" in said(refused, other), "a run of its own"
    both = said(refused, row(NOT_APPLICABLE, recipe={"device-input": {}}, runs=(RUN,)))
    assert both == "1 recipe tried, and none could be measured: 1 not applicable."


def test_a_recipe_that_was_looked_at_again_was_tried_once() -> None:
    again = row(SAME, 1.01, name="compile default, again")
    assert "(1 recipe)" in said(row(SAME, 1.0), again)


def test_where_only_a_cache_was_filled_more_budget_is_advised() -> None:
    filled = row(UNPROVEN, name="sample-cache 50", recipe={"sample-cache": {}}, reason=ONLY_FILLED)
    assert said(filled, spent=True) == (
        "1 recipe tried, and none could be measured: 1 unproven. Allow more with --budget."
    )
    text = said(filled, row(SAME, 1.0), spent=True)
    assert text.endswith("too short to time sample-cache 50. Allow more with --budget.")


def test_where_nothing_ran_it_is_said_why() -> None:
    skipped = row(
        SKIPPED, runs=(), reason="too little of the budget was left; allow more with --budget"
    )
    assert "budget" in said(skipped)
    assert "applies" in said(row("not applicable", runs=(), reason="no DataLoader"))


def test_what_was_faster_and_refused_is_not_called_no_faster() -> None:
    text = said(row(CHANGED, 1.9, reason="the loss left the baseline's band"))
    assert "1.90 times as fast" in text
    assert "changed the loss and is refused" in text


def test_a_larger_batch_is_faster_for_each_sample_and_so_is_said() -> None:
    recipe = {"batch-size": {"factor": 4, "learning-rate": "linear"}}
    won = sample_tunings.winner(recipe=recipe)
    found = Found(trials=[], spread=Spread(deviation=0.03, degrees=3.0), winner=won)
    assert sentence(found, NOISE, "speed").endswith("for 4 times the samples.")


def test_more_budget_is_advised_only_where_it_helps() -> None:
    unsure = row(UNPROVEN, 2.0, reason="seems faster, but one run is too few to be sure")
    assert "--budget" in said(unsure, spent=True)
    assert "--budget" not in said(unsure)
    assert "when the machine is quiet" in said(unsure)
    blind = said(row(UNPROVEN, 2.0, reason="the baseline's own loss is not a number"))
    assert "not a number" in blind
    assert "--budget" not in blind


def test_an_interrupted_tuning_tells_what_it_had() -> None:
    text = said(row(FASTER, 2.04, kept=True), interrupted=True)
    assert text.startswith("So far 2.04 times as fast with compile")
    assert "scatter" not in text
    assert said(row(SAME, 1.0), interrupted=True) == "So far nothing is faster (1 recipe tried)."


def test_what_differs_by_nothing_is_told_with_the_noise() -> None:
    assert "beyond the noise of this machine (3.0 % from run to run)" in said(row(SAME, 1.0))
    assert "proven to need less memory" in said(row(SAME, 1.0), goal="memory")


def test_a_winner_that_died_later_is_told_so() -> None:
    text = said(row(FASTER, 1.5, kept=True), row(FAILED, reason="device lost"))
    assert text == "Something looked 1.50 times as fast, but a later run of it failed: device lost."


def won(*speedups: Speedup | None, **more: Any) -> str:
    parts = tuple(
        Part(name=name, settings={}, numerics="close", by_hand="", speedup=found)
        for name, found in zip(("threads", "compile", "tf32"), speedups, strict=False)
    )
    recipe = {part.name: {} for part in parts}
    winner = sample_tunings.winner(parts=parts, recipe=recipe)
    found = Found(trials=[], spread=Spread(deviation=0.03, degrees=3.0), winner=winner)
    return sentence(found, NOISE, "speed", **more)


def test_what_others_did_meanwhile_is_said_with_the_gain() -> None:
    gain = Speedup(ratio=1.2, low=1.1, high=1.3)
    assert won(gain, gain).endswith("a step become 10.9 ms.")
    text = won(gain, meanwhile="other processes burned 1.6 of 2 cores")
    assert text.endswith("10.9 ms. Measured while other processes burned 1.6 of 2 cores.")


def test_changes_that_were_never_left_out_are_named() -> None:
    gain = Speedup(ratio=1.2, low=1.1, high=1.3)
    assert "Whether it takes compile and tf32 was not tried" in won(gain, None, None)
    assert "was not tried" not in won(None), "one change is the whole recipe"
