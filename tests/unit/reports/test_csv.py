"""CSV: one line for each trial, numbers as numbers, and no cell a spreadsheet would run."""

from __future__ import annotations

import csv as reading
import io

import pytest
import sample_tunings as sample

from hotlap import tunings
from hotlap.reports import csv
from hotlap.tunings import Speedup, Trial


def lines(**changes: object) -> list[dict[str, str]]:
    return list(reading.DictReader(io.StringIO(csv.render(sample.tuning(**changes)))))


def test_every_trial_is_one_line_in_the_order_tried() -> None:
    assert [(line["trial"], line["status"]) for line in lines()] == [
        (trial.name, trial.status) for trial in sample.trials()
    ]


def test_numbers_are_read_back_as_they_were() -> None:
    first, trial = lines()[0], sample.trials()[0]
    assert float(first["step_seconds"]) == trial.step_seconds
    assert float(first["speedup_low"]) == pytest.approx(2.38)
    assert int(first["peak_bytes"]) == trial.peak_bytes
    assert first["kept"] == "yes"


def test_what_was_not_measured_is_empty() -> None:
    last = lines()[-1]
    assert last["step_seconds"] == last["speedup"] == last["guard"] == ""


def test_what_is_no_number_is_empty_too() -> None:
    odd = Speedup(ratio=float("nan"), low=float("-inf"), high=float("inf"))
    line = lines(trials=(sample.measured("x", tunings.SAME, 1.0, speedup=odd),))[0]
    assert line["speedup"] == line["speedup_low"] == line["speedup_high"] == ""


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|'/C calc'!A0",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "  =1+1",
        "＝1+1",
        '=HYPERLINK("http://example.org")',
    ],
)
def test_no_cell_is_a_formula(text: str) -> None:
    made = Trial(name=text, recipe={}, status=text, reason=text, against=text, log=text)
    line = lines(trials=(made,))[0]
    for name in ("trial", "status", "reason", "against", "log"):
        assert line[name].startswith("'")
        assert line[name][1:] == text.replace("\r", "\n")


def test_a_number_below_zero_stays_a_number() -> None:
    line = lines(trials=(sample.measured("x", tunings.SAME, 1.0, start_seconds=-0.5),))[0]
    assert float(line["start_seconds"]) == -0.5


def test_a_count_is_written_without_a_fraction() -> None:
    line = lines(trials=(sample.measured("x", tunings.SAME, 1.0, break_even_steps=8.0),))[0]
    assert line["break_even_steps"] == "8"


def test_commas_quotes_and_line_ends_stay_in_their_cell() -> None:
    made = Trial(name='a, "b"\nc\0', recipe={}, status=tunings.FAILED, reason="x,y")
    found = lines(trials=(made,))
    assert len(found) == 1
    assert found[0]["trial"] == 'a, "b"\nc'


def test_without_a_trial_there_is_the_head() -> None:
    assert csv.render(sample.tuning(trials=())).startswith("trial,recipe,status,reason,")
