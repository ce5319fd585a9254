"""What every study shares: options that do nothing, and a machine that others use."""

import pytest

from hotlap.answers import MEASURED, SKIPPED, Done, Row, Timed
from hotlap.studies import named, study
from hotlap.studies.study import Setting


@pytest.mark.parametrize(
    ("name", "given", "unused"),
    [
        ("storage", {"data": "photos", "epochs": 7, "seeds": 2}, ["data", "epochs"]),
        ("ladder", {"data": "photos", "epochs": 7, "seeds": 2}, []),
        ("devices", {"epochs": 3}, ["epochs"]),
        ("memory", {"data": "photos", "quick": True}, ["data"]),
        ("memory", {"data": "photos"}, []),
        ("workers", {}, []),
    ],
)
def test_options_that_change_nothing_are_known(name, given, unused):
    assert study.unused(named(name), Setting(**given, cores=2)) == unused


def ran(**figures):
    return Done(cell=Timed(row="a", words=()), status=MEASURED, figures=figures)


def test_a_busy_machine_is_told_with_the_runs_it_disturbed():
    quiet = ran(usage={"other_cores": 0.1})
    busy = ran(telemetry=[{"other_cores": 1.0}, {"other_cores": 2.0}, {"cores": 1.0}])
    assert study.busy([quiet, ran()], cores=2) == ""
    said = study.busy([quiet, busy, ran()], cores=2)
    assert "during 1 of 2 runs other processes burned up to 1.5 of 2 cores" in said
    assert study.busy([busy], cores=16) == ""


def test_rows_without_figures_are_named_while_they_are_few():
    rows = [Row(name=f"row {at}", status=SKIPPED) for at in range(4)]
    assert study.missing(rows[:1]) == " Without figures: row 0 (skipped)."
    assert study.missing(rows) == " 4 rows were skipped."
    assert study.missing([Row(name="a", status=MEASURED)]) == ""
