"""Activations over depth, from figures of every shape, and counted for real on small networks."""

import math

import pytest
import torch

from hotlap.answers import MEASURED, OUT_OF_MEMORY, Called, Done
from hotlap.models.resnet import WIDTHS, ResNet
from hotlap.models.revnet import RevNet
from hotlap.studies import footprint, memory, networks
from hotlap.studies.study import Results, Setting

FULL = Setting(device="cuda", cores=8)
QUICK = Setting(quick=True, cores=2)
MIB = 1 << 20


def activations(kind, size, way):
    layers = memory.layers(kind, size)
    return {memory.KEPT: layers, memory.CHECKPOINTED: layers // 4, memory.REVERSIBLE: 5}[way] * MIB


def figures(kind, size, way, ratio, beside):
    base = 0.001 * memory.layers(kind, size)
    kept = way == memory.KEPT
    found = {
        "parameters": 1000 * size,
        "activation_bytes": activations(kind, size, way),
        "peak_bytes": activations(kind, size, way) + 2 * MIB,
        "batch_seconds": base if kept else base * ratio,
        "windows": [base] * 3,
    }
    if not kept:
        found["ratios"] = [ratio * 0.99, ratio, ratio * 1.01]
        found["kept_seconds"], found["kept_windows"] = base * beside, [base * beside] * 3
    return found


def asked(cell):
    return {name: cell.arguments[name] for name in ("kind", "size", "way")}


def results(setting=FULL, *, ratio=1.25, beside=1.0, losses=(1.0, 1.1), without=()):
    plan = memory.plan(setting)
    done = []
    for cell in plan:
        if cell.row in without:
            done.append(Done(cell=cell, status=OUT_OF_MEMORY, reason="CUDA out of memory"))
        elif isinstance(cell, Called):
            found = figures(**asked(cell), ratio=ratio, beside=beside)
            done.append(Done(cell=cell, status=MEASURED, figures=found))
        else:
            loss = losses[list(memory.LEARNING).index(cell.row)] + 0.01 * cell.run
            logged = [{"epoch": 1, "loss": loss, "test_accuracy": 0.5}]
            done.append(Done(cell=cell, status=MEASURED, figures={"epochs": logged}))
    return Results(plan, done)


def read(setting=FULL, **more):
    rows = memory.tabulate(setting, results(setting, **more))
    return {row.name: row for row in rows}, memory.read(setting, rows)


def test_the_flat_line_is_said_beside_the_growing_one():
    rows, said = read()
    assert said.startswith(
        "Of the ways to train the deepest network (218 layers) RevNet 18-18-18 keeps least, 5.00 "
        "MiB of activations; what reversible blocks keep stays the same from RevNet 3-3-3 to "
        "RevNet 18-18-18, while the same networks keeping all go from 38.0 MiB to 218 MiB. RevNet "
        "18-18-18 takes 1.25 times the time of keeping all (1.22 to 1.28); checkpointing keeps "
        "54.0 MiB and takes 1.25 times"
    )
    assert not any(row.best for row in rows.values())
    assert rows["18-18-18 keeping all"].number("ratio") is None
    assert rows["RevNet 9-9-9"].number("layers") == 110


def test_a_time_within_the_noise_is_called_so():
    _, said = read(ratio=1.001)
    cannot = "cannot be told from that of keeping all"
    assert f". The time of RevNet 18-18-18 {cannot}; checkpointing keeps" in said
    assert f"54.0 MiB, and its time {cannot}." in said


def test_what_keeping_all_took_beside_the_other_ways_counts_for_its_time():
    quiet, _ = read()
    restless, _ = read(beside=4.0)
    row = "9-9-9 keeping all"
    assert quiet[row].number("batch_seconds") == pytest.approx(0.11)
    assert restless[row].number("batch_seconds") == pytest.approx(0.11 * 16 ** (1 / 3))
    low, high = restless["ResNet-18"].intervals["batch_seconds"]
    assert high / low > 2  # a machine that is not quiet widens every interval


def test_one_pair_of_quick_times_does_not_make_every_interval_absurd():
    rows, _ = read(QUICK, beside=2.0)
    low, high = rows["5-5-5 keeping all"].intervals["batch_seconds"]
    assert high < 1.5 * low


def test_activations_that_do_grow_are_not_called_flat(monkeypatch):
    monkeypatch.setattr(memory, "FLAT", 0.5)
    _, said = read()
    assert "what reversible blocks keep grows from 5.00 MiB to 5.00 MiB from RevNet 3-3-3" in said


def test_losses_of_an_epoch_are_compared_and_near_ones_called_so():
    rows, said = read(losses=(1.0, 2.0))
    assert "the loss is 1.005 (learning ResNet-18) and 2.005 (learning RevNet 3-3-3)." in said
    assert rows["learning ResNet-18"].values["loss"] == "1.005"
    _, said = read(losses=(1.0, 1.001))
    assert "within the noise of the seeds" in said


def test_a_network_that_does_not_fit_leaves_the_others_their_words():
    _, said = read(without=("18-18-18 keeping all", "RevNet 18-18-18"))
    assert said.startswith("Of the deepest network (218 layers) only 18-18-18 checkpointed was ")
    assert "from RevNet 3-3-3 to RevNet 9-9-9, while the same networks keeping all go" in said
    assert "keeping all go from 38.0 MiB to 110 MiB" in said
    assert said.count("times the time of keeping all") == 1
    assert said.endswith(
        "Without figures: RevNet 18-18-18 (out of memory) and 18-18-18 keeping all (out of memory)."
    )


def test_networks_that_were_each_measured_in_one_way_have_no_best():
    plan = memory.plan(FULL)
    done = [
        Done(cell=cell, status=MEASURED, figures=figures(**asked(cell), ratio=1.0, beside=1.0))
        for cell in plan[:3]
    ]
    found = Results(plan, done)
    rows = memory.tabulate(FULL, found)
    said = memory.read(FULL, rows)
    assert not any(row.best for row in rows)
    assert said.startswith("No network was measured in two ways that could be compared; ResNet-18")
    assert "ResNet-50 keeps" in said
    assert memory.draw(FULL, rows, found)


def test_where_only_learning_went_well_that_is_said():
    networks = [memory.name(**one) for one in memory.networks(FULL)]
    rows, said = read(without=networks)
    assert said.startswith("No memory was measured. After 1 epoch, with as many parameters, the")
    assert memory.draw(FULL, list(rows.values()), results(without=networks)) == ()


def test_quick_has_both_lines_and_says_what_it_has():
    _, said = read(QUICK)
    assert "stays the same from RevNet 3-3-3 to RevNet 5-5-5, while 5-5-5 keeping all takes" in said


def test_pictures_go_over_depth():
    found = results()
    pictures = memory.draw(FULL, memory.tabulate(FULL, found), found)
    assert [one.y.title for one in pictures] == [
        "bytes of activations",
        "bytes at the peak",
        "seconds a batch",
        "loss",
    ]
    lines = {one.name: one for one in pictures[0].series}
    assert lines["ResNet"].x == (18.0, 34.0, 50.0)
    assert lines["RevNet, reversible"].x == (38.0, 62.0, 110.0, 218.0)
    assert set(lines["RevNet, reversible"].y) == {5.0 * MIB}


def test_each_seed_of_an_epoch_is_another_one():
    plan = memory.plan(Setting(device="cuda", cores=8, seeds=3))
    seeds = [cell.words[-1] for cell in plan if cell.row == "learning RevNet 3-3-3"]
    assert sorted(seeds) == ["0", "1", "2"]


def test_the_networks_that_learn_have_the_parameters_the_table_says():
    widths = [13 * factor // WIDTHS[0] for factor in WIDTHS]
    made = {"learning ResNet-18": ResNet(18, widths=widths), "learning RevNet 3-3-3": RevNet(38)}
    for row, model in made.items():
        assert footprint.parameters(model) == memory.LEARNING[row][1]


def test_the_three_ways_are_one_network():
    torch.manual_seed(0)
    kept = networks.build("revnet", 2, memory.KEPT)
    x = torch.randn(2, 3, 32, 32)
    for way in (memory.CHECKPOINTED, memory.REVERSIBLE):
        other = networks.build("revnet", 2, way)
        other.load_state_dict(kept.state_dict())
        torch.testing.assert_close(other(x), kept(x))


@pytest.mark.parametrize("way", memory.WAYS)
def test_a_cell_counts_and_times_a_network(way):
    torch.manual_seed(0)
    found = memory.measure(
        kind="revnet", size=2, way=way, device="cpu", seconds=0.0, window_seconds=0.0
    )
    assert found["peak_bytes"] > found["activation_bytes"] > 0
    assert len(found["windows"]) == 3
    assert ("ratios" in found) == (way != memory.KEPT)


def test_reversible_keeps_the_same_at_any_depth_and_checkpointing_less_than_all():
    def kept(size, way):
        training = footprint.Training(networks.build("revnet", size, way), batch=2, device="cpu")
        return footprint.taken(training)["activation_bytes"]

    assert kept(4, memory.REVERSIBLE) == kept(2, memory.REVERSIBLE)
    assert kept(4, memory.REVERSIBLE) < kept(4, memory.CHECKPOINTED) < kept(4, memory.KEPT)
    assert kept(2, memory.KEPT) < kept(4, memory.KEPT)


def test_networks_that_are_not_as_deep_are_not_called_the_same():
    _, said = read(without=("18-18-18 keeping all",))
    assert (
        "stays the same from RevNet 3-3-3 to RevNet 18-18-18, while 3-3-3 keeping all takes "
        "38.0 MiB and 9-9-9 keeping all takes 110 MiB."
    ) in said


def test_the_best_is_not_compared_with_itself():
    others = [memory.name(**one) for one in memory.networks(FULL) if one["way"] != memory.KEPT]
    _, said = read(without=others)
    assert said.startswith(
        "Of the deepest network (218 layers) only 18-18-18 keeping all was measured and keeps 218 "
        "MiB of activations, while 3-3-3 keeping all takes 38.0 MiB. After 1 epoch"
    )


def test_a_training_that_diverged_is_called_so_and_has_no_loss():
    rows, said = read(losses=(math.nan, 1.0))
    assert "nan" not in said
    assert said.endswith(
        " Diverged, the loss being no number any more: 2 of 2 runs learning ResNet-18."
    )
    assert rows["learning ResNet-18"].values["loss"] is None
    assert "diverged" in rows["learning ResNet-18"].reason


def test_no_interval_of_a_loss_goes_below_nothing():
    rows, _ = read(losses=(0.001, 1.0))
    low, high = rows["learning ResNet-18"].intervals["final_loss"]
    assert low == 0.0 < high
