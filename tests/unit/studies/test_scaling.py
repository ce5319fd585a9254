"""Efficiency of several processes, and what is asked of a machine that has few devices."""

import pytest

from hotlap.answers import MEASURED, SKIPPED, TIMED_OUT, Done
from hotlap.studies import scaling
from hotlap.studies.study import Results, Setting

FOUR = Setting(cores=4)


def results(rates, setting=FOUR, jitter=0.005):
    plan, done = scaling.plan(setting), []
    for cell in plan:
        rate = rates.get(int(cell.row.split()[0]))
        if cell.skip:
            done.append(Done(cell=cell, status=SKIPPED, reason=cell.skip))
        elif rate is None:
            done.append(Done(cell=cell, status=TIMED_OUT, reason="no step for 120 s"))
        else:
            cost = (1 + jitter * cell.run) / rate
            figures = {"sample_seconds": cost, "step_seconds": 64 * cost}
            done.append(Done(cell=cell, status=MEASURED, figures=figures))
    return Results(plan, done)


def read(rates, setting=FOUR, **more):
    rows = scaling.tabulate(setting, results(rates, setting, **more))
    return rows, scaling.read(setting, rows)


@pytest.mark.parametrize(
    ("setting", "counts", "skipped"),
    [
        (Setting(cores=1), [1, 2], [2]),
        (Setting(cores=6), [1, 2, 4, 6], []),
        (Setting(cores=64), [1, 2, 4, 8, 16], []),
        (Setting(device="cuda", cores=16, gpus=1), [1, 2], [2]),
        (Setting(device="cuda", cores=16, gpus=8), [1, 2, 4, 8], []),
        (Setting(quick=True, cores=2), [1, 2], []),
    ],
)
def test_counts_go_up_to_what_there_is(setting, counts, skipped):
    plan = scaling.plan(setting)
    assert scaling.counts(setting) == counts
    assert [scaling._count(one.row) for one in plan if one.skip and not one.run] == skipped


def test_every_process_has_the_same_threads_and_the_same_batch():
    plan = scaling.plan(Setting(cores=16))
    assert {one.variables["OMP_NUM_THREADS"] for one in plan} == {"1"}
    assert scaling.threads(Setting(device="cuda", cores=16, gpus=4)) == 4
    for one in plan:
        words = dict(zip(one.words, one.words[1:], strict=False))
        each = int(words["--samples"]) // scaling._count(one.row)
        assert each == scaling.STEPS * int(words["--batch"])


def test_one_process_needs_no_launcher():
    plain, two, *_ = (one.words for one in scaling.plan(FOUR))
    assert plain[:3] == ("python", "-m", "hotlap.workloads.cifar")
    assert two[:3] == ("python", "-m", "torch.distributed.run")
    assert two[two.index("--") + 1] == "hotlap.workloads.cifar"


def test_efficiency_is_the_rate_beside_as_many_times_one():
    rows, said = read({1: 1000, 2: 1900, 4: 3200})
    assert [one.number("efficiency") for one in rows] == pytest.approx([1.0, 0.95, 0.8])
    low, high = rows[-1].intervals["efficiency"]
    assert low < 0.8 < high
    assert said.startswith("Best: 4 processes with 3,18")
    assert "3.20 times as many as one; each does 80 % (" in said


def test_more_that_are_no_faster_are_said_to_be():
    _, said = read({1: 1000, 2: 900, 4: 800})
    assert "Best: 1 process" in said
    assert "more are no faster: 4 processes train on 0.80 times as many as one" in said
    _, said = read({1: 1000, 2: 1900, 4: 1500})
    assert said.endswith("; 4 processes train on 1.50 times as many as one.")


def test_what_the_noise_hides_is_not_claimed():
    rows, said = read({1: 1000, 2: 1900, 4: 1905})
    assert not any(row.best for row in rows)
    assert said.startswith("No row is proven fastest: first is 4 processes with 1,8")
    assert "2 processes cannot be told from it within the noise; each does 48 % (" in said


def test_one_gpu_is_an_answer():
    setting = Setting(device="cuda", cores=16, gpus=1)
    rows, said = read({1: 1000}, setting)
    assert [one.status for one in rows] == [MEASURED, SKIPPED]
    assert said.startswith(
        "Only one row was measured: 1 process with 995 samples/s (there is only "
    )
    assert "(there is only 1 GPU for them)." in said
    assert len(scaling.draw(setting, rows, results({1: 1000}, setting))) == 1


def test_without_one_process_nothing_is_known_of_efficiency():
    rows, said = read({2: 1900, 4: 3200})
    assert rows[1].number("efficiency") is None
    assert "one process was not measured" in said


def test_pictures_show_what_was_measured_beside_what_could_be():
    found = results({1: 1000, 2: 1900, 4: 3200})
    rates, efficiency = scaling.draw(FOUR, scaling.tabulate(FOUR, found), found)
    measured, ideal = rates.series
    assert measured.x == (1.0, 2.0, 4.0)
    assert ideal.y == pytest.approx(tuple(n * measured.y[0] for n in (1, 2, 4)))
    assert "least with 4 processes, 80 %" in efficiency.words
