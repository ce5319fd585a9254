"""Two studies set against each other, row by row."""

from __future__ import annotations

import math

import msgspec
from answered import answer

import hotlap
from hotlap import comparisons
from hotlap.answers import MEASURED, Column, Done, Row, Timed
from hotlap.comparisons import FASTER, HIGHER, SAME
from hotlap.reports import comparison


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
    assert "1 of 3 rows differs in 'samples/s': 'a' is faster (150, was 100)." in found.summary
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


def beside(answer, **taken: float):
    """Its rows, of which others burned so many of two cores."""
    cells = tuple(
        Done(
            cell=Timed(row=name, words=()),
            status=MEASURED,
            figures={"usage": {"other_cores": cores}},
        )
        for name, cores in taken.items()
    )
    return msgspec.structs.replace(answer, cells=cells)


def test_studies_on_a_busy_machine_are_shown_and_not_judged():
    before = beside(studied(a=(758, 700, 800), b=(600, 580, 620)), a=1.9, b=1.8)
    after = beside(studied(a=(457, 440, 480), b=(500, 480, 520)), a=1.9, b=1.8)
    found = hotlap.compare(before, after)
    assert (found.outcome, {one.outcome for one in found.figures}) == ("", {""})
    told = "Whether any row differs cannot be told: the machine was busy in both runs."
    assert found.summary == told
    assert found.notes == (
        "The machine was busy with something else in both runs. Measure again when it is quiet.",
    )
    assert {line.outcome for line in comparison.lines(found)} == {"not judged"}
    assert "'a'" not in comparison.plain(found)
    assert "457" in comparison.plain(found)


def test_rows_that_were_measured_in_quiet_are_judged_beside_others_that_were_not():
    before = beside(studied(a=(100, 95, 105), b=(200, 190, 210)), a=0.1, b=1.8)
    after = beside(studied(a=(150, 140, 160), b=(300, 290, 310)), a=0.1, b=0.1)
    found = hotlap.compare(before, after)
    assert {one.name: one.outcome for one in found.figures} == {"a": FASTER, "b": ""}
    assert "Not judged, for that reason: the times of 'b'." in found.notes


def test_what_was_learned_on_a_busy_machine_is_judged():
    column = Column(name="rate", title="test accuracy", unit="accuracy", interval=True)
    before, after = (
        msgspec.structs.replace(beside(studied(a=ends), a=1.9), columns=(column,))
        for ends in ((0.5, 0.49, 0.51), (0.6, 0.59, 0.61))
    )
    assert hotlap.compare(before, after).outcome == HIGHER


def test_where_both_rows_differ_both_are_told_to():
    before, after = studied(a=(1, 0.9, 1.1), b=(2, 1.9, 2.1)), studied(a=(3, 2.9, 3.1), b=(5, 4, 6))
    assert hotlap.compare(before, after).summary.startswith("Both rows differ in 'samples/s': 'a' ")


def test_a_row_that_failed_has_no_figure_and_is_told():
    before = studied(a=(100, 95, 105), b=(200, 190, 210))
    rows = (before.rows[0], Row(name="b", status="out of memory", reason="too large"))
    found = hotlap.compare(before, msgspec.structs.replace(before, rows=rows))
    assert [one.name for one in found.figures] == ["a"]
    assert "'b' was measured before and is out of memory now." in found.notes
