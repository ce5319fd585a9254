"""The plots of a tuning: what is drawn, what lies where, and the words below it."""

from __future__ import annotations

import msgspec
import pytest
import sample_tunings as sample
from test_html import Page, page

from hotlap import tunings


@pytest.fixture(scope="module")
def whole() -> Page:
    return page()


def test_the_guards_band_lies_around_the_baselines_mean(whole: Page) -> None:
    losses = whole.figures[2]["data"]
    low, high = losses[0], losses[1]
    assert high["name"] == "what the guard allows"
    width = [b - a for a, b in zip(low["y"], high["y"], strict=True)]  # type: ignore[call-overload]
    assert width == pytest.approx([0.14] * len(width))


def test_the_words_below_the_losses_compare_the_same_steps() -> None:
    falling = tuple(2.0 - 0.001 * at for at in range(1000))
    other = msgspec.structs.replace(sample.run(2, losses=(9.0,) * 50), seed=1)
    made = page(
        baseline_runs=(sample.run(1, losses=falling[:118]), other, sample.run(3, losses=falling)),
        winner=sample.winner(runs=(sample.run(4, losses=falling[:194]),)),
    )
    assert "Before: 3 runs of 50 to 1,000 steps; after: 1 run of 194 steps." in made.text
    half = "Over steps 60 to 118, the later half of those both have"
    assert f"{half}, its mean is 1.912 before and 1.912 after" in made.text
    assert "the band allows 0.07 either way" in made.text
    assert "ending at" not in made.text


def test_losses_that_no_winner_compares_are_told_as_they_are() -> None:
    assert "Before: 3 runs of 240 steps." in page(winner=None).text


def test_a_trials_interval_is_its_error_bar(whole: Page) -> None:
    faster = whole.figures[0]["data"][0]
    assert faster["x"] == [2.41]
    assert faster["error_x"]["array"] == pytest.approx([0.03])  # type: ignore[index]


def test_an_interval_that_holds_everything_leaves_the_others_their_room() -> None:
    wide = tunings.Speedup(ratio=11.1, low=0.26, high=476.8)
    trial = sample.measured("threads 1", tunings.UNPROVEN, 1.0, speedup=wide, overall=wide)
    shown = page(trials=(sample.measured("tf32", tunings.SAME, 1.0), trial))
    assert shown.figures[0]["layout"]["xaxis"]["range"][1] < 2  # type: ignore[call-overload]
    assert "0.26 to 476.80" in shown.text
    assert "11.10" not in shown.text


def test_nothing_runs_through_the_names_of_trials(whole: Page) -> None:
    figure = whole.figures[0]
    wide, narrow = figure["layout"], figure["narrow"]
    assert wide["yaxis"]["ticktext"][0] == "everything promising"  # type: ignore[call-overload]
    assert all(one["x"] == 1 and one["xshift"] > 0 for one in wide["annotations"])  # type: ignore[call-overload]
    row = (narrow["height"] - 96) / 7  # type: ignore[call-overload, operator]
    for shape in narrow["shapes"]:  # type: ignore[call-overload]
        at = round(shape["y1"])
        lowest = min(one["yshift"] for one in narrow["annotations"] if one["y"] == at)  # type: ignore[call-overload]
        assert row * (shape["y1"] - at) < lowest - 9  # half of a line of text
    names, results = narrow["annotations"][::2], narrow["annotations"][1::2]  # type: ignore[call-overload]
    assert [one["y"] for one in names] == [one["y"] for one in results]
    assert all(a["yshift"] - b["yshift"] >= 18 for a, b in zip(names, results, strict=True))


def test_one_step_that_compiled_does_not_press_the_others_flat(whole: Page) -> None:
    steps = whole.figures[1]["layout"]
    assert steps["yaxis"]["range"][1] < 100  # type: ignore[call-overload]
    assert "the longest 2.40 s" in whole.text


def test_ten_thousand_steps_are_thinned_but_keep_their_spikes() -> None:
    times = [0.01] * 10_000
    times[4321] = 0.05
    found = page(
        baseline=msgspec.structs.replace(sample.slow_profile(), step_seconds=tuple(times)),
        winner=None,
    )
    series = found.figures[1]["data"][0]
    assert len(series["x"]) <= 1300  # type: ignore[arg-type]
    assert 4322 in series["x"]  # type: ignore[operator]
