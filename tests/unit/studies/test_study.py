"""What every study shares: options that do nothing, and a machine that others use."""

import pytest

from hotlap.answers import FAILED, MEASURED, OUT_OF_MEMORY, SKIPPED, TIMED_OUT, Done, Row, Timed
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


@pytest.mark.parametrize(
    ("name", "empty"), [("memory", {"loss", "test_accuracy"}), ("batchsize", {"input"})]
)
def test_a_quick_table_has_no_column_that_stays_empty(name, empty):
    full = {column.name for column in study.columns(named(name), Setting())}
    quick = {column.name for column in study.columns(named(name), Setting(quick=True))}
    assert full - quick == empty


def ran(**figures):
    return Done(cell=Timed(row="a", words=()), status=MEASURED, figures=figures)


def test_machines_that_runs_were_spread_over_are_told():
    def on(host, processor="EPYC", gpu=None):
        return ran(node={"host": host, "processor": processor, "gpu": gpu})

    assert study.machines([ran(), on("n1"), on("n1")]) == ""
    two = " The runs were spread over 2 machines of one kind."
    assert study.machines([on("n1"), on("n2")]) == two
    said = study.machines([on("n1", gpu="H200"), on("n2", gpu="A100"), on("n3", gpu="A100")])
    assert said.startswith(" The runs were spread over 3 machines of 2 kinds (A100 and H200)")


def test_rows_without_figures_are_named_while_they_are_few():
    rows = [Row(name=f"row {at}", status=SKIPPED) for at in range(4)]
    assert study.missing(rows[:1]) == " Without figures: row 0 (skipped)."
    assert study.missing(rows) == " 4 rows were skipped."
    assert study.missing([Row(name="a", status=MEASURED)]) == ""


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (FAILED, " 4 rows failed."),
        (OUT_OF_MEMORY, " 4 rows ran out of memory."),
        (TIMED_OUT, " 4 rows timed out."),
    ],
)
def test_many_rows_without_figures_did_what_they_did(status, said):
    assert study.missing([Row(name=f"row {at}", status=status) for at in range(4)]) == said


def test_a_row_that_begins_with_and_stands_in_quotation_marks():
    rows = [Row(name=name, status=FAILED, reason=name[-4:]) for name in ("compile", "and bf16")]
    assert study.missing(rows) == " Without figures: compile (failed) and 'and bf16' (failed)."
    assert study.nothing(rows) == "Nothing was measured. 'and bf16': bf16; compile: pile."


def test_a_column_without_intervals_is_drawn_without_any():
    plain = Row(name="a", values={"seconds": 1.0})
    assert study.series("", ["a"], [plain], "seconds").low == ()
    wide = Row(name="b", values={"seconds": 2.0}, intervals={"seconds": (1.0, 3.0)})
    made = study.series("", ["a", "b"], [plain, wide], "seconds")
    assert (made.low, made.high) == ((None, 1.0), (None, 3.0))
