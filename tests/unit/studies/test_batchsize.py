"""The knee of the batch size, from figures of every shape."""

import pytest

from hotlap.answers import MEASURED, OUT_OF_MEMORY, Done
from hotlap.studies import batchsize
from hotlap.studies.study import Results, Setting

FULL = Setting(device="cuda", cores=8)


def results(rates, *, waits=None, setting=FULL, jitter=0.01):
    plan = batchsize.plan(setting)
    done = []
    for cell in plan:
        batch = int(cell.row.split()[1].replace(",", ""))
        rate = rates.get(batch)
        if rate is None:
            reason = "torch.OutOfMemoryError: CUDA out of memory"
            done.append(Done(cell=cell, status=OUT_OF_MEMORY, reason=reason))
            continue
        cost = (1 + jitter * cell.run) / rate
        figures = {"sample_seconds": cost, "step_seconds": cost * batch, "windows": [cost] * 3}
        figures["peak_bytes"] = batch << 20
        figures["phases"] = {"input": waits if cell.run == 0 else None}
        done.append(Done(cell=cell, status=MEASURED, figures=figures))
    return Results(plan, done)


def read(rates, **more):
    rows = batchsize.tabulate(FULL, results(rates, **more))
    return rows, batchsize.read(FULL, rows)


RISING = dict(zip(batchsize.BATCHES, (1000, 1900, 3500, 6000, 9000, 12000, 15000), strict=True))
FLAT = {**RISING, 1024: 6100, 2048: 6150, 4096: 6200}


def test_the_knee_is_the_smallest_batch_that_is_nearly_as_fast():
    rows, said = read(FLAT)
    assert next(row.name for row in rows if row.best) == "batch 512"
    assert said == (
        "Best: batch 512 with 5,970 samples/s, 97 % of the fastest (batch 4,096) with 12 % of its "
        "memory: beyond it a larger one stops paying."
    )
    assert rows[1].number("gain") == pytest.approx(1.9, rel=0.01)
    low, high = rows[1].intervals["samples_per_second"]
    assert low < 1900 < high


def test_a_restless_machine_makes_no_small_batch_look_good_enough():
    rows, said = read(RISING, jitter=5.0)
    assert not any(row.best for row in rows)
    assert said.startswith("No row is proven to be the knee: batch 4,096 with ")
    assert "is the fastest, but " in said
    assert "batch 2,048 cannot be told from it within the noise" in said


def test_where_a_smaller_batch_may_be_the_knee_the_choice_is_left_open():
    """Nearly as fast by its figure is the larger; within the noise it is no faster."""
    near = {**RISING, 1024: 14000, 2048: 14400, 4096: 15000}
    rows, said = read(near, jitter=0.05)
    assert not any(row.best for row in rows)
    assert "batch 2,048 with 14,053 samples/s has 96 % of the fastest (batch 4,096) with" in said
    assert "of its memory, but batch 1,024 cannot be told from it within the noise." in said
    assert "beyond it" not in said


def test_where_the_largest_is_fastest_it_is_said_that_it_still_paid():
    rows, said = read(RISING)
    assert rows[-1].best
    assert "paid up to the largest that was measured" in said


def test_where_larger_ones_are_slower_none_is_faster():
    _, said = read({**RISING, 1024: 3000, 2048: 2000, 4096: 1000})
    assert said.startswith("Best: batch 512")
    assert "none of the larger ones is faster" in said


def test_a_batch_that_does_not_fit_is_a_row_with_its_reason():
    rows, said = read({size: rate for size, rate in RISING.items() if size < 4096})
    assert rows[-1].status == "out of memory"
    assert "CUDA out of memory" in rows[-1].reason
    assert said.endswith("Without figures: batch 4,096 (out of memory).")


def test_waiting_for_input_is_said_to_be_the_limit():
    _, said = read(FLAT, waits=0.6)
    assert "waits 60 % of its time for input" in said
    _, said = read(FLAT, waits=0.05)
    assert "input" not in said


def test_nothing_measured_is_said_and_not_drawn():
    rows, said = read({})
    assert said.startswith("Nothing was measured")
    assert batchsize.draw(FULL, rows, results({})) == ()


def test_every_batch_divides_the_images():
    for cell in batchsize.plan(FULL):
        words = dict(zip(cell.words, cell.words[1:], strict=False))
        assert int(words["--samples"]) % int(words["--batch"]) == 0


def test_only_the_first_run_is_looked_into():
    assert {(cell.run, cell.phases) for cell in batchsize.plan(FULL)} == {(0, True), (1, False)}


def test_a_batch_that_was_measured_alone_is_compared_with_none():
    _, said = read({64: 1000})
    assert said.startswith("Only one row was measured: batch 64 with 995 samples/s.")
