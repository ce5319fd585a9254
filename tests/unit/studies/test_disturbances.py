"""Runs that other processes disturbed: told apart, run again in the end, and what is said of it."""

import made_up
import msgspec
import pytest

from hotlap import answers
from hotlap.answers import FAILED, MEASURED, SET_ASIDE, Called, Done, Timed, Trained
from hotlap.errors import Interrupted
from hotlap.studies import disturbances, study
from hotlap.studies.conducting import conduct
from hotlap.studies.study import Setting


def ran(**figures):
    return Done(cell=Timed(row="a", words=()), status=MEASURED, figures=figures)


def test_a_busy_machine_is_told_with_the_runs_it_disturbed():
    quiet = ran(usage={"other_cores": 0.1})
    busy = ran(telemetry=[{"other_cores": 1.0}, {"other_cores": 2.0}, {"cores": 1.0}])
    assert disturbances.busy([quiet, ran()], cores=2) == ""
    said = disturbances.busy([quiet, busy, ran()], cores=2)
    assert "during 1 of 2 runs other processes took up to 1.5 of 2 cores" in said
    assert disturbances.busy([busy], cores=16) == ""
    assert "up to 1.5 of 1 core, so" in disturbances.busy([busy], cores=1)


def test_cores_that_a_host_kept_are_not_blamed_on_processes():
    kept = ran(telemetry=[{"other_cores": 1.2, "stolen_cores": 1.2}])
    said = disturbances.busy([kept], cores=2)
    assert "during 1 of 1 run the host of this virtual machine took up to 1.2 of 2 cores" in said
    both = ran(usage={"other_cores": 1.6, "stolen_cores": 0.8})
    said = disturbances.busy([kept, both], cores=2)
    assert "other processes and the host of this virtual machine took up to 1.6 of 2 cores" in said


def test_disturbed_is_what_others_burned_more_than_in_the_quietest():
    taken = [0.1, 0.3, 0.5, None]
    done = disturbances.marked([ran(usage={"other_cores": one}) for one in taken], cores=2)
    assert [one.disturbed for one in done] == [False, False, True, False]
    calm = disturbances.marked([*done, ran(usage={"other_cores": 0.0})], cores=2)
    assert [one.disturbed for one in calm] == [False, False, True, False, False]
    assert not any(one.busy for one in calm)


def test_where_every_run_had_a_busy_machine_all_are_disturbed():
    done = disturbances.marked([ran(usage={"other_cores": one}) for one in (1.9, 2.0)], cores=2)
    assert [(one.disturbed, one.busy) for one in done] == [(True, True)] * 2


def test_a_single_run_beside_a_busy_machine_is_said_to_have_no_interval():
    busy = disturbances.marked([ran(usage={"other_cores": 1.9})], cores=2)
    assert disturbances.told(busy, 2).endswith(
        "and what differs between single runs has no interval."
    )
    said = ", so some times are too long, by more than the intervals say."
    assert disturbances.told([*busy, *busy], 2).endswith(said)
    other = Done(cell=Timed(row="b", words=()), status=MEASURED)
    alone = f"{said} A single run beside that has no interval."
    assert disturbances.told([*busy, other], 2).endswith(alone)


def test_rows_are_crowded_that_have_no_quiet_run():
    def took(row, taken):
        figures = {"usage": {"other_cores": taken}}
        return Done(cell=Timed(row=row, words=()), status=MEASURED, figures=figures)

    done = [took("a", 1.9), took("a", 0.1), took("b", 1.8), took("b", 1.9), took("c", 0.0)]
    assert disturbances.crowded_rows(done, 2) == {"b"}


def test_a_row_is_made_of_quiet_runs_where_its_kind_has_them():
    """Of one that was timed quietly and trained in a crowd, the training is still told."""
    timed = [Done(cell=Timed(row="a", words=()), status=MEASURED, disturbed=one) for one in (0, 1)]
    trained = Done(cell=Trained(row="a", words=()), status=MEASURED, disturbed=True)
    assert study.quiet([*timed, trained]) == [timed[0], trained]


class Crowd:
    """A runner on a machine where others burn cores: by row, what they do in each run of it."""

    def __init__(self, others, seconds=10.0):
        self.others = {row: list(told) for row, told in others.items()}
        self.ran, self.labels = [], []
        self._seconds = seconds

    def run(self, cell, *, progress):
        progress({})
        self.ran.append(cell.row)
        taken = self.others[cell.row].pop(0)
        if taken is Interrupted:
            raise Interrupted("Interrupted.")
        if isinstance(taken, str):
            return Done(cell=cell, status=FAILED, reason=taken, seconds=self._seconds)
        figures = {"seconds": 1.0 + taken, "telemetry": [{"other_cores": taken}]}
        return Done(cell=cell, status=MEASURED, figures=figures, seconds=self._seconds)


def conducted(crowd, *, quick=False, cores=2, **more):
    return conduct(made_up.made([*crowd.others]), Setting(quick=quick), crowd, cores=cores, **more)


def test_the_most_disturbed_run_is_repeated_in_the_end_and_the_quieter_one_counts():
    crowd, kept, labels = Crowd({"a": [0.0], "b": [1.0, 0.1], "c": [0.9]}), [], []
    found = conducted(
        crowd,
        keep=lambda known: kept.append(len(known.cells)),
        progress=lambda state: labels.append(state["recipe"]),
    )
    assert crowd.ran == ["a", "b", "c", "b"]  # a third of the time is one of three cells
    assert labels[-1] == "again b"
    assert kept == [1, 2, 3, 4]
    assert [row.number("seconds") for row in found.rows] == [1.0, 1.1, 1.9]
    assert [one.disturbed for one in found.done] == [False, False, True]
    (aside,) = found.aside
    assert (aside.status, aside.reason) == (SET_ASIDE, "other processes took 1.0 of 2 cores")
    assert found.complete
    said = disturbances.told(found.cells, 2)
    assert said.startswith(" 1 disturbed run was repeated. The machine was busy")
    assert "during 1 of 3 runs" in said  # the one that was set aside is not told again


@pytest.mark.parametrize(
    ("second", "reason"),
    [(1.5, "other processes took 1.5 of 2 cores"), ("lost power", "failed: lost power")],
)
def test_a_repetition_that_is_no_better_is_set_aside_and_not_tried_again(second, reason):
    found = conducted(crowd := Crowd({"a": [0.0], "b": [1.0, second], "c": [0.0]}))
    assert crowd.ran == ["a", "b", "c", "b"]
    assert found.rows[1].number("seconds") == 2.0
    assert found.done[1].disturbed
    assert [one.reason for one in found.aside] == [reason]
    assert study.Results(found.plan, found.cells).of("b") == [found.done[1]]


def test_repeating_takes_no_more_than_a_third_of_the_time_and_six_runs():
    few = Crowd({"a": [0.0], "b": [1.0]})
    conducted(few)
    assert few.ran == ["a", "b"]
    names = [f"row {at}" for at in range(30)]
    many = Crowd({"quiet": [0.0], **{name: [1.0, 0.0] for name in names}})
    found = conducted(many)
    assert len(many.ran) == 31 + 6 == len(found.cells)


@pytest.mark.parametrize("asked", [{"quick": True}, {"cores": None}])
def test_a_quick_study_and_one_whose_cells_share_no_machine_repeat_nothing(asked):
    found = conducted(crowd := Crowd({"a": [0.0], "b": [1.0], "c": [0.0]}), **asked)
    assert crowd.ran == ["a", "b", "c"]
    assert [one.disturbed for one in found.done] == [False, "quick" in asked, False]


def test_an_interrupted_repetition_loses_nothing_and_a_resume_goes_on_with_it():
    told = {
        "a": [0.0],
        "b": [1.0, 0.0],
        "c": [0.9, Interrupted],
        "d": [0.0],
        "e": [0.0],
        "f": [0.0],
    }
    first = conducted(Crowd(told))
    assert not first.complete
    assert [one.status for one in first.done] == [MEASURED] * 6
    stored = msgspec.json.decode(msgspec.json.encode(first.cells), type=list[Done])
    again = Crowd({name: [0.1] for name in told})
    second = conducted(again, finished=stored)
    assert again.ran == ["c"]
    assert [one.cell.row for one in second.aside] == ["b", "c"]
    assert not any(one.disturbed for one in second.done)


def test_what_was_set_aside_for_a_cell_of_another_plan_is_forgotten():
    other = Done(cell=Called(row="z", function="nowhere:at_all"), status=SET_ASIDE)
    found = conducted(Crowd({"a": [0.0]}), finished=[other])
    assert found.cells == found.done
    assert other.status in answers.STATUSES
