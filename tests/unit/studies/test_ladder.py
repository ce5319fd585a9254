"""The ladder of optimizations: what its rows are, and that its words follow from the figures."""

import pytest

from hotlap.answers import FAILED, MEASURED, SKIPPED, Done, Timed, Trained
from hotlap.records import MEMORY_PARTS
from hotlap.studies import ladder, rungs, study
from hotlap.studies.study import Results, Setting

FULL = Setting(device="cuda", cores=16)
RATES = {
    **{"stock": 4000, "bf16": 4020, "channels-last": 3990, "fused-optimizer": 4010},
    "fp16": 4015,
    **{"tf32, cudnn-benchmark": 4005, "compile": 5200, "batch 512": 4800},
    **{"pinned-memory": 4030, "uint8-transfer": 3200, "8 workers": 9500},
    **{"and pinned-memory": 9900, "and uint8-transfer": 10100, "device-input": 10500},
    **{"and bf16": 10600, "and channels-last": 11400, "and fused-optimizer": 12000},
    **{"and cudnn-benchmark": 12100, "and compile": 33000, "and batch 512": 72000},
}


def done_of(cell, rate, accuracy, count=3):
    if isinstance(cell, Trained):
        epochs = [
            {"total_seconds": seconds, "train_accuracy": right - 0.05, "test_accuracy": right}
            for seconds, right in ((20.0, 0.5), (1.0, 0.7), (1.0, accuracy))[:count]
        ]
        return Done(cell=cell, status=MEASURED, figures={"epochs": epochs})
    batch = 512 if "batch" in cell.row else 128
    figures = {
        "sample_seconds": (1 + 0.01 * cell.run) / rate,
        "step_seconds": batch / rate,
        "samples": batch,
        "windows": [1 / rate] * 3,
        "peak_bytes": batch << 20,
        "memory": {"parameters_bytes": 45 << 20, "activations_bytes": batch << 19},
    }
    return Done(cell=cell, status=MEASURED, figures=figures)


def results(rates, setting=FULL, accuracy=0.82):
    plan = ladder.plan(setting)
    done = []
    for cell in plan:
        if cell.skip:
            done.append(Done(cell=cell, status=SKIPPED, reason=cell.skip))
        elif cell.row in rates:
            done.append(done_of(cell, rates[cell.row], accuracy))
        else:
            done.append(Done(cell=cell, status=FAILED, reason="it does not compile"))
    return Results(plan, done)


def read(rates, setting=FULL):
    found = results(rates, setting)
    rows = ladder.tabulate(setting, found)
    return {row.name: row for row in rows}, ladder.read(setting, rows)


def test_rows_stand_in_the_order_of_the_ladder_with_stock_above_all():
    assert results(RATES).rows == [rung.name for rung in rungs.listed(FULL)] == list(RATES)


def test_a_rung_adds_one_optimization_to_the_row_above_it():
    made = {rung.name: rung for rung in rungs.listed(FULL)}
    for rung in made.values():
        if rung.name.startswith("and "):
            above = made[rung.above].recipe
            assert above.items() < rung.recipe.items()
    assert made["and batch 512"].recipe.keys() == {
        *("device-input", "precision-bf16", "channels-last", "fused-optimizer"),
        *("cudnn-benchmark", "compile", "batch-size"),
    }


def test_the_script_itself_is_the_same_in_every_row():
    assert len({cell.words for cell in ladder.plan(FULL)}) == 1


def test_gains_are_over_stock_and_steps_over_the_row_above():
    rows, _ = read(RATES)
    assert rows["and batch 512"].number("gain") == pytest.approx(18.0, rel=0.01)
    assert rows["and batch 512"].number("step_up") == pytest.approx(72 / 33, rel=0.02)
    assert rows["and batch 512"].number("batch") == 512
    assert rows["device-input"].number("step_up") is None
    assert rows["stock"].number("gain") is None
    low, high = rows["compile"].intervals["gain"]
    assert low < rows["compile"].number("gain") < high


def test_the_reading_names_what_gives_most_and_what_gives_nothing():
    _, said = read(RATES)
    assert said.startswith(
        "Best: device-input, bf16, channels-last, fused-optimizer, cudnn-benchmark, compile "
        "and batch 512, 71,643 samples/s, 18.00 times ("
    )
    assert said.endswith(
        "stock. By itself, device-input gives most (2.62 times), 6 of 11 make no provable "
        "difference and uint8-transfer is slower (0.80 times). On top of others, compile gives "
        "most (2.73 times) and 3 of 8 make no provable difference."
    )
    assert "accuracy" not in said


def test_a_step_that_loses_is_said_to():
    rows, said = read({**RATES, "and batch 512": 20000})
    assert rows["and compile"].best
    assert said.endswith("make no provable difference and batch 512 is slower (0.61 times).")


def test_a_ladder_of_few_rows_names_them():
    setting = Setting(quick=True)
    named = [rung.name for rung in rungs.listed(setting)]
    rows, said = read(dict(zip(named, (100.0, 100.5, 63.0, 80.0), strict=True)), setting)
    assert "By itself, batch 64 makes no provable difference and device-input is slower (0" in said
    assert "On top of device-input, batch 64 gives 1.27 times." in said
    assert not any(row.best for row in rows.values())


def test_after_the_first_cells_there_is_only_stock_to_speak_of():
    whole = results(RATES)
    plan = ladder.plan(FULL)
    stock = [one for one in whole.of("stock") if one.good]
    rows = ladder.tabulate(FULL, Results(plan, stock))
    assert ladder.read(FULL, rows) == (
        "Only one row was measured: stock, 3,980 samples/s. 19 rows were not run."
    )


def test_with_epochs_every_row_is_trained():
    setting = Setting(device="cuda", cores=16, epochs=3)
    trained = [cell for cell in ladder.plan(setting) if isinstance(cell, Trained)]
    assert [cell.row for cell in trained] == list(RATES)
    rows, said = read(RATES, setting)
    assert list(rows) == list(RATES)
    assert rows["stock"].number("first_epoch_seconds") == 20.0
    assert rows["stock"].number("epoch_seconds") == 1.0
    assert rows["and batch 512"].number("test_accuracy") == pytest.approx(0.82)
    assert "test_accuracy" not in rows["stock"].intervals  # one run knows nothing of its spread
    assert said.endswith(
        "After 3 epochs, stock has 82.0 % test accuracy (22.0 s of training) and all up to batch "
        "512 has 82.0 % test accuracy (22.0 s of training); the 18 rows between them have 82.0 %."
    )


def test_what_the_rows_between_the_ends_have_learned_and_which_diverged_is_said():
    setting = Setting(device="cuda", cores=16, epochs=3)
    right = {"stock": 0.83, "fp16": 0.1, "compile": 0.84, "and batch 512": 0.8}
    done = [
        done_of(cell, RATES[cell.row], right.get(cell.row, 0.82)) for cell in ladder.plan(setting)
    ]
    for one in done:
        for epoch in one.figures.get("epochs", ()):
            epoch["loss"] = float("nan") if one.cell.row in ("fp16", "and bf16") else 0.5
    rows = ladder.tabulate(setting, Results(ladder.plan(setting), done))
    said = ladder.read(setting, rows)
    assert "(22.0 s of training); the 18 rows between them have 10.0 to 84.0 %." in said
    assert said.endswith("no number any more: 1 of 1 run fp16 and 1 of 1 run 'and bf16'.")
    reasons = {row.name: row.reason for row in rows if row.reason}
    assert list(reasons) == ["fp16", "and bf16"]
    assert reasons["fp16"] == "1 of 1 run diverged: the loss was no number any more"


def test_stopped_before_its_last_row_was_trained_it_puts_no_rows_between_that_and_stock():
    setting = Setting(device="cuda", cores=16, epochs=3)
    plan = ladder.plan(setting)
    done = [
        done_of(cell, RATES[cell.row], 0.82)
        for cell in plan
        if isinstance(cell, Timed) or cell.row != "and batch 512"
    ]
    said = ladder.read(setting, ladder.tabulate(setting, Results(plan, done)))
    assert (
        "After 3 epochs, stock has 82.0 % test accuracy (22.0 s of training); the 18 rows beside "
        "it have 82.0 %." in said
    )


def test_columns_of_the_epochs_are_there_only_with_epochs():
    plain = [column.name for column in study.columns(ladder, FULL)]
    asked = [column.name for column in study.columns(ladder, Setting(epochs=5))]
    assert asked == [*plain, *ladder.WITH_EPOCHS]


def test_seeds_are_given_to_the_trainings():
    plan = ladder.plan(Setting(device="cuda", cores=16, epochs=3, seeds=2))
    trained = [cell.words[-2:] for cell in plan if isinstance(cell, Trained)]
    assert trained == [("--seed", "0"), ("--seed", "1")] * len(RATES)
    assert sum(isinstance(cell, Timed) for cell in plan) == 2 * len(RATES)


def test_without_a_gpu_what_needs_one_is_left_out_and_the_rest_adds_up():
    setting = Setting(device="cpu", cores=4)
    made = {rung.name: rung for rung in rungs.listed(setting)}
    assert made["and cudnn-benchmark"].skip
    assert made["and compile"].above == "and fused-optimizer"
    assert "cudnn-benchmark" not in made["and compile"].recipe
    rates = {name: 100.0 + at for at, name in enumerate(made)}
    rows, said = read(rates, setting)
    assert rows["pinned-memory"].status == "skipped"
    assert rows["pinned-memory"].reason == "it needs a GPU"
    assert said.endswith("7 rows were skipped.")


def test_a_row_that_failed_has_its_reason_and_no_gain_is_made_up_for_the_next():
    rows, said = read({name: rate for name, rate in RATES.items() if name != "and compile"})
    assert rows["and compile"].reason == "it does not compile"
    assert rows["and batch 512"].number("step_up") is None
    assert said.endswith("Without figures: 'and compile' (failed).")


def test_pictures_show_speed_memory_and_what_is_learned():
    setting = Setting(device="cuda", cores=16, epochs=3)
    found = results(RATES, setting)
    rates, memory, learned = ladder.draw(setting, ladder.tabulate(setting, found), found)
    assert rates.series[0].x == tuple(RATES)
    assert [one.name for one in memory.series] == list(MEMORY_PARTS)
    assert memory.series[3].y[0] == 128 << 19
    assert [one.name for one in learned.series] == ["stock", "all up to batch 512"]
    assert learned.series[0].x == (20.0, 21.0, 22.0)


def test_memory_that_is_not_known_is_not_drawn():
    plan = ladder.plan(Setting(quick=True))
    done = [Done(cell=cell, status=MEASURED, figures={"sample_seconds": 0.1}) for cell in plan]
    found = Results(plan, done)
    assert len(ladder.draw(FULL, ladder.tabulate(FULL, found), found)) == 1


def test_every_row_is_timed_in_two_rounds_the_second_one_forward():
    rows = [cell.row for cell in ladder.plan(FULL)]
    assert rows == [*reversed(RATES), *RATES]
    assert len({(cell.row, cell.run) for cell in ladder.plan(FULL)}) == 2 * len(RATES)
    assert [cell.row for cell in ladder.plan(Setting(quick=True))].count("stock") == 1


def test_a_ladder_that_is_cut_off_has_trained_every_row_before_any_is_timed_again():
    plan = ladder.plan(Setting(device="cuda", cores=16, epochs=5))
    count = len(RATES)
    trained = plan[count : 2 * count]
    assert all(isinstance(cell, Trained) for cell in trained)
    assert [cell.row for cell in trained] == list(RATES)
    assert [cell.row for cell in plan if isinstance(cell, Timed)] == [*reversed(RATES), *RATES]
    assert len({(cell.row, cell.run) for cell in plan}) == 3 * count


def test_no_interval_has_less_than_no_image_right_or_more_than_all():
    setting = Setting(device="cuda", cores=16, epochs=3, seeds=2)
    plan = ladder.plan(setting)
    for accuracies, ends in ((0.05, 0.2), (0.0, None)), ((0.8, 0.95), (None, 1.0)):
        done = [done_of(cell, 4000, accuracies[cell.run % 2]) for cell in plan]
        stock = ladder.tabulate(setting, Results(plan, done))[0]
        found = stock.intervals["test_accuracy"]
        assert all(end is None or end == at for end, at in zip(ends, found, strict=True))
        assert 0.0 <= found[0] < stock.number("test_accuracy") < found[1] <= 1.0


def test_a_single_epoch_is_the_first_and_there_are_no_others():
    setting = Setting(device="cuda", cores=16, epochs=1)
    plan = ladder.plan(setting)
    done = [done_of(cell, 4000, 0.82, count=1) for cell in plan]
    rows = ladder.tabulate(setting, Results(plan, done))
    assert rows[0].number("first_epoch_seconds") == 20.0
    assert rows[0].number("epoch_seconds") is None
    assert "(20.0 s of training)" in ladder.read(setting, rows)
