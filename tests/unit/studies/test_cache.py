"""Which tier pays, from figures of every shape."""

import pytest

from hotlap.answers import FAILED, MEASURED, SKIPPED, Done
from hotlap.errors import UsageError
from hotlap.studies import cache
from hotlap.studies.study import Results, Setting

FULL = Setting(device="cuda", cores=4)
MIB = 1 << 20
# Seconds of a warm epoch, share of hits, MiB in memory, on disk and on the GPU.
USUAL = {
    cache.NONE: (2.0, None, 0, 0, 0),
    cache.NAIVE: (1.5, 0.4, 800, 0, 0),
    cache.RAM: (0.4, 1.0, 300, 0, 0),
    "half in RAM": (1.2, 0.5, 150, 0, 0),
    "half + disk": (0.6, 1.0, 150, 300, 0),
    "disk": (0.8, 1.0, 0, 300, 0),
    cache.GPU: (0.5, 1.0, 0, 0, 300),
}


def figures(seconds, hits, ram, disk, device):
    return {
        "cold_seconds": 2.5,
        "warm_seconds": seconds,
        "windows": [seconds] * 2,
        "file_bytes": 30 * MIB,
        "hit_rate": hits,
        "foreseen_ratio": 10.1,
        "ram_bytes": ram * MIB,
        "disk_bytes": disk * MIB,
        "device_bytes": device * MIB,
        "timeline": [
            {"seconds": float(at), "memory_bytes": 200.0, "read_bytes": at, "disk_bytes": disk * at}
            for at in range(3)
        ],
    }


def results(told=USUAL, *, setting=FULL):
    plan = cache.plan(setting)
    done = []
    for cell in plan:
        way = cell.row.partition(", ")[2]
        if cell.skip:
            done.append(Done(cell=cell, status=SKIPPED, reason=cell.skip))
        elif way not in told:
            done.append(Done(cell=cell, status=FAILED, reason="planted"))
        else:
            done.append(Done(cell=cell, status=MEASURED, figures=figures(*told[way])))
    return Results(plan, done)


def read(told=USUAL, setting=FULL):
    rows = cache.tabulate(setting, results(told, setting=setting))
    return {row.name: row for row in rows}, cache.read(setting, rows)


def test_the_fastest_tier_of_each_data_set_and_the_dict_beside_it_are_said():
    rows, said = read()
    assert said == (
        "Best: superres, RAM, 400 ms an epoch, 5.0 times as fast as without a cache. Best: cifar, "
        "RAM, 400 ms an epoch, 5.0 times as fast as without a cache. For superres a dict in each "
        "worker grew to 800 MiB, 26.67 times the size of the files (K), and hit in 40 % of all "
        "cases; what workers share took 300 MiB, 10.00 times (10.10 foreseen), and hit in 100 %."
    )
    assert [row.name for row in rows.values() if row.best] == ["superres, RAM", "cifar, RAM"]


def test_what_lies_on_the_gpu_counts_as_memory():
    rows, _ = read()
    assert rows["superres, GPU"].number("ratio") == 10.0
    assert rows["superres, disk"].number("ratio") is None


def test_tiers_within_the_noise_of_the_fastest_are_named():
    rows, said = read({**USUAL, "half + disk": (0.401, 1.0, 150, 300, 0)})
    assert not any(row.best for row in rows.values())
    assert said.startswith("No row is proven fastest for superres: first is RAM, 400 ms an epoch, ")
    assert "without a cache, but half + disk cannot be told from it within the noise. No " in said


def test_a_gain_within_the_noise_is_called_so():
    _, said = read(
        {**{way: (2.0, *rest) for way, (_, *rest) in USUAL.items()}, "disk": (1.99,) * 5}
    )
    assert "1.0 times as fast as without a cache, which is within the noise" in said


def test_no_cache_can_be_best():
    slow = {way: (3.0, *rest) for way, (_, *rest) in USUAL.items()}
    _, said = read({**slow, cache.NONE: USUAL[cache.NONE]})
    assert said.startswith("Best: superres, no cache, 2.00 s an epoch. Best: cifar, no cache")


def test_without_a_gpu_its_rows_are_skipped_and_not_missed():
    rows, said = read(setting=Setting(cores=4))
    assert rows["superres, GPU"].status == "skipped"
    assert "Without figures" not in said


def test_a_row_that_failed_is_named():
    _, said = read({way: told for way, told in USUAL.items() if way != cache.NAIVE})
    assert "a dict in each worker" not in said
    assert said.endswith(
        "Without figures: superres, naive dict (failed) and cifar, naive dict (failed)."
    )


def test_pictures_have_epochs_and_what_was_taken_over_time():
    found = results()
    pictures = cache.draw(FULL, cache.tabulate(FULL, found), found)
    assert [one.y.title for one in pictures] == [
        "seconds an epoch",
        *["bytes of memory", "bytes read from files", "bytes of cache on disk"] * 2,
    ]
    assert [one.name for one in pictures[3].series] == ["half + disk", "disk"]
    assert pictures[1].series[0].x == (0.0, 1.0, 2.0)


def test_without_pillow_every_cell_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(cache.importlib.util, "find_spec", lambda name: None)
    assert {cell.skip for cell in cache.plan(FULL)} == {
        "Pillow is not installed, and it decodes the images"
    }


def test_one_epoch_alone_is_refused_because_the_first_fills_the_cache():
    with pytest.raises(UsageError, match="--epochs is 1; the study cache needs 2 at least"):
        cache.plan(Setting(quick=True, epochs=1))
    warm = [cache.plan(Setting(epochs=count))[0].arguments["warm"] for count in (2, 3, None)]
    assert warm == [1, 2, 2]
