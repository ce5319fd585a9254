"""What is said of loader workers follows from the figures, whatever they are."""

import msgspec
import pytest

from hotlap.answers import MEASURED, TIMED_OUT, Done
from hotlap.studies import disturbances, workers
from hotlap.studies.study import Results, Setting

FULL = Setting(cores=4)


def results(figures, setting=FULL, jitter=0.01):
    """`figures`: loading and computing seconds by number of workers; None for a failure."""
    plan = workers.plan(setting)
    done = []
    for cell in plan:
        told = figures.get(int(cell.row.split()[0]))
        if told is None:
            done.append(Done(cell=cell, status=TIMED_OUT, reason="not finished after 900 s"))
            continue
        loading, computing = (value * (1 + jitter * cell.run) for value in told)
        epoch = {
            "loading_seconds": loading,
            "training_seconds": computing,
            "total_seconds": loading + computing,
        }
        first = {name: 50 * value for name, value in epoch.items()}
        done.append(Done(cell=cell, status=MEASURED, figures={"epochs": [first, epoch]}))
    return Results(plan, done)


def read(figures, setting=FULL):
    rows = workers.tabulate(setting, results(figures, setting))
    return rows, workers.read(setting, rows)


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, [0, 1]), (2, [0, 1, 2]), (6, [0, 1, 2, 4, 6]), (16, None)]
)
def test_counts_go_up_to_the_cores(cores, counts):
    found = workers.counts(Setting(cores=cores))
    assert found == counts or found == [0, 1, 2, 4, 8, 16]


def test_a_single_epoch_is_said_to_be_the_first():
    told = "This is the first epoch alone, in which libraries start."
    figures = {0: (2.0, 1.0), 1: (1.0, 1.0), 2: (0.5, 1.0), 4: (0.1, 1.0)}
    assert told in read(figures, Setting(cores=4, epochs=1))[1]
    assert told not in read(figures, Setting(cores=4, epochs=2))[1]


def test_the_first_epoch_does_not_count_where_there_are_others():
    rows, _ = read({0: (4.0, 2.0), 1: (3.0, 2.0), 2: (1.0, 2.0), 4: (0.1, 2.0)})
    assert rows[0].number("loading_seconds") == pytest.approx(4.0, rel=0.02)


def test_loading_that_is_hidden_is_the_reason_to_stop():
    rows, said = read({0: (4.0, 2.0), 1: (3.0, 2.0), 2: (0.1, 2.0), 4: (0.1, 2.3)})
    assert next(row.name for row in rows if row.best) == "2 workers"
    assert said.startswith("Best: 2 workers, 2.11 s an epoch. More cannot gain much")
    assert "With 4 workers an epoch takes 1.14 times as long, computing 301 ms longer." in said


def test_more_that_lose_although_there_is_still_waiting_are_told_with_what_they_lose():
    _, said = read({0: (1.0, 2.0), 1: (1.5, 3.0), 2: (2.0, 3.0), 4: (2.0, 4.0)})
    assert said == (
        "Best: 0 workers, 3.01 s an epoch. More make it slower: with 4 workers an epoch takes 2.00 "
        "times as long, computing 2.01 s longer. With 0 workers 33 % of an epoch is waiting for "
        "images."
    )


def test_as_many_workers_as_cores_and_still_waiting_is_said():
    _, said = read({0: (8.0, 2.0), 1: (6.0, 2.0), 2: (4.0, 2.0), 4: (2.0, 2.0)})
    assert "Best: 4 workers" in said
    assert "With 4 workers 50 % of an epoch is waiting for images, and there are 4 cores." in said


def test_no_workers_can_be_best():
    _, said = read({0: (0.1, 2.0), 1: (0.2, 3.0), 2: (0.2, 3.1), 4: (0.3, 3.5)})
    assert "Best: 0 workers" in said
    assert "loading is only 4.8 % of the epoch" in said


def test_rows_within_the_noise_of_the_best_are_named():
    rows, said = read({0: (4.0, 2.0), 1: (3.0, 2.0), 2: (0.1, 2.0), 4: (0.1, 2.01)})
    assert not any(row.best for row in rows)
    assert said.startswith("No row is proven fastest: first is 2 workers, 2.11 s an epoch, but ")
    assert "but 4 workers cannot be told from it within the noise. More cannot gain" in said


def test_single_runs_on_a_busy_machine_have_no_interval_no_best_and_no_reason():
    quick = Setting(quick=True, cores=2)
    found = results({0: (0.2, 0.1), 2: (0.5, 0.2)}, quick)
    busy = [{"other_cores": 1.9}]
    done = [
        msgspec.structs.replace(one, figures={**one.figures, "telemetry": busy})
        for row in found.rows
        for one in found.of(row)
    ]
    rows = workers.tabulate(quick, Results(workers.plan(quick), disturbances.marked(done, 2)))
    assert not any(row.intervals or row.best for row in rows)
    assert workers.read(quick, rows) == (
        "No row is proven fastest: first is 0 workers, 300 ms an epoch, but 2 workers cannot be "
        "held against it without intervals."
    )


def test_failed_cells_are_named_and_all_failed_is_said():
    rows, said = read({0: (4.0, 2.0), 1: (3.0, 2.0), 2: (0.1, 2.0)})
    assert rows[-1].status == "timed out"
    assert said.endswith("Without figures: 4 workers (timed out).")
    rows, said = read({})
    assert not any(row.best for row in rows)
    assert said.startswith("Nothing was measured")
    assert workers.draw(FULL, rows, results({})) == ()


def test_the_picture_has_both_parts_of_every_epoch():
    found = results({0: (4.0, 2.0), 1: (3.0, 2.0), 2: (0.1, 2.0)})
    (picture,) = workers.draw(FULL, workers.tabulate(FULL, found), found)
    assert [one.name for one in picture.series] == ["loading", "compute"]
    assert picture.series[0].x == ("0 workers", "1 worker", "2 workers")


def test_loading_and_computing_add_up_to_the_epoch_however_much_the_runs_differ():
    rows = workers.tabulate(FULL, results({0: (1.0, 4.0), 1: (1.0, 9.0)}, jitter=3.0))
    for row in rows[:2]:
        parts = row.number("loading_seconds") + row.number("training_seconds")
        assert parts == pytest.approx(row.number("total_seconds"))
    assert rows[1].number("training_seconds") == pytest.approx(
        9 * rows[1].number("loading_seconds")
    )


def test_the_picture_says_with_how_many_workers_an_epoch_is_shortest():
    found = results({0: (4.0, 2.0), 1: (0.1, 2.0), 2: (0.1, 2.5), 4: (0.1, 2.6)})
    (picture,) = workers.draw(FULL, workers.tabulate(FULL, found), found)
    assert picture.words.endswith("; least with 1 worker.")
