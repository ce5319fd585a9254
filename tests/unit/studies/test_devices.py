"""CPU or GPU: what is said of threads and of the GPU follows from the figures."""

import pytest

from hotlap.answers import FAILED, MEASURED, SKIPPED, Done
from hotlap.studies import devices
from hotlap.studies.study import Results, Setting

FULL = Setting(device="cuda", cores=4)
ALONE = Setting(device="cpu", cores=4)


def results(costs, setting=FULL):
    """`costs`: seconds a sample by number of threads; None stands for the GPU."""
    plan = devices.plan(setting)
    done = []
    for cell in plan:
        threads = None if cell.row == devices.GPU else int(cell.row.split()[1])
        if cell.skip:
            done.append(Done(cell=cell, status=SKIPPED, reason=cell.skip))
        elif threads not in costs:
            done.append(Done(cell=cell, status=FAILED, reason="planted"))
        else:
            figures = {"sample_seconds": costs[threads], "steps": 10, "samples": 64}
            done.append(Done(cell=cell, status=MEASURED, figures=figures))
    return Results(plan, done)


def read(costs, setting=FULL):
    rows = devices.tabulate(setting, results(costs, setting))
    return {row.name: row for row in rows}, devices.read(setting, rows)


SCALING = {1: 0.08, 2: 0.042, 4: 0.025, None: 0.0002}


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (16, [1, 2, 4, 8, 16])]
)
def test_threads_double_up_to_the_cores(cores, counts):
    assert devices.counts(Setting(cores=cores)) == counts


def test_cells_of_the_cpu_train_there_whatever_was_asked_for():
    for cell in devices.plan(FULL):
        words = dict(zip(cell.words, cell.words[1:], strict=False))
        assert words["--device"] == ("cuda" if cell.row == devices.GPU else "cpu")
        assert (words["--model"], words["--batch"]) == ("resnet18", "64")


def test_an_epoch_is_computed_from_the_part_that_was_measured():
    rows, _ = read(SCALING)
    assert rows["CPU, 1 thread"].number("epoch_seconds") == pytest.approx(4000.0)
    assert rows["CPU, 1 thread"].number("measured") == pytest.approx(640 / 50_000)
    assert rows["CPU, 4 threads"].number("gain") == pytest.approx(3.2)
    assert rows["CPU, 4 threads"].number("of_ideal") == pytest.approx(0.8)


def test_the_gpu_is_compared_with_the_fastest_of_the_cpu():
    rows, said = read(SCALING)
    assert rows["GPU"].best
    assert rows["GPU"].number("gain_over_cpu") == pytest.approx(125.0)
    assert said.startswith("Best: GPU, 10.0 s for an epoch; the GPU is 125.00 times (")
    assert "as fast as the CPU with 4 threads. 4 threads are 3.20 times (" in said
    assert said.endswith("as fast as one, and each is worth 80 % of a single one.")


def test_a_gpu_that_is_slower_is_said_to_be():
    _, said = read({**SCALING, None: 0.05})
    assert said.startswith("Best: CPU, 4 threads")
    assert "the GPU is 0.50 times (" in said


def test_a_difference_within_the_noise_is_called_so():
    _, said = read({**SCALING, None: 0.0251})
    assert "GPU and the CPU with 4 threads cannot be told apart within the noise" in said
    _, said = read({**SCALING, 4: 0.0418})
    assert "; 2 threads cannot be told from them within the noise." in said
    rows, said = read({**SCALING, 1: 0.02, 2: 0.0201}, ALONE)
    assert not any(row.best for row in rows.values())
    assert "More threads than one are not proven to make the CPU faster." in said


def test_without_a_gpu_the_question_of_threads_is_answered():
    rows, said = read(SCALING, ALONE)
    assert rows["GPU"].status == "skipped"
    assert rows["GPU"].reason == "there is no GPU that torch can use"
    rows, _ = read(SCALING, Setting(device="cpu", cores=4, gpus=1))
    assert rows["GPU"].reason == "--device cpu was given"
    assert said.startswith("Best: CPU, 4 threads, 20 min 50 s for an epoch. 4 threads are 3.20")
    assert said.endswith("Without figures: GPU (skipped).")


def test_threads_that_do_not_help_are_said_not_to():
    _, said = read({1: 0.02, 2: 0.03, 4: 0.05}, ALONE)
    assert "More threads than one do not make the CPU faster." in said
    _, said = read({1: 0.08, 2: 0.04, 4: 0.06}, ALONE)
    assert "; more do not help." in said


def test_the_pictures_are_of_all_devices_and_of_threads():
    found = results(SCALING)
    epochs, scaling = devices.draw(FULL, devices.tabulate(FULL, found), found)
    assert epochs.series[0].x[-1] == "GPU"
    assert epochs.y.log
    assert scaling.series[0].x == (1.0, 2.0, 4.0)
    assert scaling.series[0].y == pytest.approx((1.0, 0.08 / 0.042, 3.2))


def test_one_thread_that_failed_leaves_the_others_without_a_gain():
    rows, said = read({2: 0.04, 4: 0.02}, ALONE)
    assert rows["CPU, 2 threads"].number("gain") is None
    assert said.startswith("Best: CPU, 4 threads")
    found = results({2: 0.04, 4: 0.02}, ALONE)
    assert len(devices.draw(ALONE, list(rows.values()), found)) == 1


def test_without_one_thread_no_other_is_compared_with_it():
    _, said = read({2: 0.042, 4: 0.025}, ALONE)
    best = "4 threads are the fastest of those that were measured, and one thread was not."
    assert f"for an epoch. {best}" in said
    assert "0.00 times" not in said


def test_the_row_of_the_gpu_is_a_command_for_the_gpu_even_where_it_is_skipped():
    cell = devices.plan(ALONE)[-1]
    assert cell.skip
    assert cell.words[cell.words.index("--device") + 1] == "cuda"


def test_the_picture_says_on_what_an_epoch_is_shortest():
    for setting, words in ((FULL, "the GPU."), (ALONE, "the CPU with 4 threads.")):
        found = results(SCALING, setting)
        picture = devices.draw(setting, devices.tabulate(setting, found), found)[0]
        assert picture.words.endswith(f"; least on {words}")
