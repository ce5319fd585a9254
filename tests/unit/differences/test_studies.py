"""Two studies set against each other, row by row."""

from __future__ import annotations

import math

import msgspec
from answered import answer

import hotlap
from hotlap import comparisons
from hotlap.answers import Row
from hotlap.comparisons import FASTER, SAME


def studied(**rates: tuple[float, float, float]):
    """Rows of a rate with the ends of its interval."""
    rows = tuple(
        Row(
            name=name.replace("_", " "),
            values={"rate": value},
            intervals={"rate": (low, high)},
            best=value == max(one[0] for one in rates.values()),
            runs=2,
        )
        for name, (value, low, high) in rates.items()
    )
    made = answer()
    column = msgspec.structs.replace(
        made.columns[0], name="rate", title="samples/s", unit="rate", interval=True
    )
    return msgspec.structs.replace(made, rows=rows, columns=(column,))


def test_rows_of_a_study_differ_where_their_intervals_say_so():
    before = studied(a=(100, 95, 105), b=(200, 190, 210), c=(50, 20, 80))
    after = studied(a=(150, 140, 160), b=(201, 191, 211), c=(60, 30, 90))
    found = hotlap.compare(before, after)
    outcomes = {one.name: one.outcome for one in found.figures}
    assert outcomes == {"a": FASTER, "b": SAME, "c": SAME}
    assert "1 of 3 rows differs in samples/s: 'a' is faster (150, was 100)." in found.summary
    assert "The best row is 'b', as before." in found.summary
    assert found.outcome == comparisons.DIFFERENT


def test_a_study_is_told_by_its_times_and_not_by_gains_over_a_row_that_moved():
    made = studied(a=(100, 95, 105), b=(200, 190, 210))
    gain = msgspec.structs.replace(made.columns[0], name="gain", title="gain", unit="ratio")
    rate = msgspec.structs.replace(made.columns[0], interval=False)

    def against_a(**rates: tuple[float, float, float]):
        first = rates["a"][0]
        one = studied(**rates)
        rows = tuple(
            msgspec.structs.replace(
                row,
                values={**row.values, "gain": row.values["rate"] / first},
                intervals={
                    **row.intervals,
                    "gain": tuple(end / first for end in row.intervals["rate"]),
                },
            )
            for row in one.rows
        )
        return msgspec.structs.replace(one, rows=rows, columns=(gain, rate))

    before = against_a(a=(100, 95, 105), b=(200, 190, 210))
    found = hotlap.compare(before, against_a(a=(200, 190, 210), b=(300, 290, 310)))
    assert (found.column, found.outcome) == ("samples/s", FASTER)


def test_a_study_in_which_nothing_differs_says_so_and_names_what_only_one_has():
    before = studied(a=(100, 95, 105), b=(200, 190, 210))
    after = studied(a=(101, 95, 105), c=(300, 290, 310))
    found = hotlap.compare(before, after)
    assert "No difference beyond the noise in the one row that both have" in found.summary
    assert "it was 'b'" in found.summary
    assert found.outcome == SAME
    assert "Only the first has 'b'." in found.notes
    assert "Only the second has 'c'." in found.notes


def test_a_value_that_is_no_number_is_not_judged():
    before = studied(a=(100, 95, 105), b=(200, 190, 210))
    found = hotlap.compare(before, studied(a=(math.nan, 95, 105), b=(200, math.inf, 210)))
    assert [(one.outcome, one.ratio) for one in found.figures] == [("", None), ("", None)]
    assert found.outcome == ""
    assert "nothing can be told apart from noise" in found.summary


def test_a_row_that_failed_has_no_figure_and_is_told():
    before = studied(a=(100, 95, 105), b=(200, 190, 210))
    rows = (before.rows[0], Row(name="b", status="out of memory", reason="too large"))
    found = hotlap.compare(before, msgspec.structs.replace(before, rows=rows))
    assert [one.name for one in found.figures] == ["a"]
    assert "'b' was measured before and is out of memory now." in found.notes
