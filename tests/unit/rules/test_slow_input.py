import msgspec
import pytest
from test_verdict import BASE, record

from hotlap.optimizations import loader_workers
from hotlap.rules import loader_restart, slow_input
from hotlap.rules.verdict import judge


def waiting(*, share: float, seconds: float | None = 0.07, steps: float = 0.1, **loader: object):
    kept = {"workers": 4, "persistent_workers": False, "trained": 90, **loader}
    made = msgspec.structs.replace(BASE.loaders[0], **kept)
    return record(
        {"input": 0.9},
        loaders=(made,),
        input_cpu_share=1.0,
        epoch_start_share=share,
        epoch_start_seconds=seconds,
        starting_share=steps,
    )


def test_where_workers_start_most_of_the_time_they_are_to_be_kept():
    found = waiting(share=0.8)
    assert slow_input.check(found, judge(found)).advice.startswith("Pass persistent_workers=True ")
    assert "80 %" in loader_restart.check(found, judge(found)).summary


@pytest.mark.parametrize(
    "found",
    [
        waiting(share=0.2),
        waiting(share=0.8, persistent_workers=True),
        waiting(share=0.8, seconds=None),
        waiting(share=0.8, workers=0),
    ],
)
def test_otherwise_the_advice_is_about_samples_and_workers(found):
    assert "start anew" not in slow_input.check(found, judge(found)).advice


def test_workers_that_are_not_needed_are_not_to_be_kept(monkeypatch):
    monkeypatch.setattr(loader_workers, "needed", lambda record: 0)
    found = msgspec.structs.replace(waiting(share=0.3), input_making_share=0.05)
    assert "num_workers=0" in slow_input.check(found, judge(found)).advice
    assert loader_restart.check(found, judge(found)) is None
    monkeypatch.setattr(loader_workers, "needed", lambda record: 1)
    assert "persistent_workers" in loader_restart.check(found, judge(found)).advice


def said_of(found):
    return [rule.check(found, judge(found)).advice for rule in (slow_input, loader_restart)]


def test_most_of_the_wait_is_enough_where_the_wait_is_not_most_of_the_step():
    found = record({"input": 0.4}, loaders=waiting(share=0.3).loaders, input_cpu_share=1.0)
    kept = {"epoch_start_share": 0.3, "epoch_start_seconds": 0.3, "starting_share": 1.0}
    advice = slow_input.check(msgspec.structs.replace(found, **kept), judge(found)).advice
    assert advice.endswith("start anew in each step.")


def test_an_iterator_that_each_step_begins_is_to_be_made_once():
    found = waiting(share=0.8, steps=1.0, batches=63, batch_size=16)
    found = msgspec.structs.replace(found, step=msgspec.structs.replace(found.step, samples=16.0))
    for advice in said_of(found):
        assert advice.startswith("Call iter() on this DataLoader once, before the loop")
    assert "in each step, which starts" in loader_restart.check(found, judge(found)).evidence


def test_workers_cannot_make_the_only_batch_of_an_epoch_ahead():
    for advice in said_of(waiting(share=0.8, steps=1.0, batches=1, batch_size=200)):
        assert advice.startswith("Pass num_workers=0 to this DataLoader")


def test_a_step_that_takes_an_epoch_of_several_batches_keeps_its_workers():
    found = waiting(share=0.8, steps=1.0, batches=4, batch_size=8)
    found = msgspec.structs.replace(found, step=msgspec.structs.replace(found.step, samples=32.0))
    for advice in said_of(found):
        assert advice.startswith("Pass persistent_workers=True to this DataLoader")


@pytest.mark.parametrize(
    ("making", "burned", "workers"), [(0.1, 1.0, 4), (0.9, 0.1, 64), (None, 1.0, 0)]
)
def test_a_data_set_that_streams_is_not_asked_for_samples_by_number(making, burned, workers):
    found = waiting(share=0.0, workers=workers, iterable=True)
    found = msgspec.structs.replace(
        found,
        input_making_share=making,
        input_cpu_share=burned,
        step=msgspec.structs.replace(found.step, median_seconds=5e-4, mean_seconds=5e-4),
    )
    advice = slow_input.check(found, judge(found)).advice
    assert "IterableDataset" in advice
    assert "__getitems__" not in advice
    assert "Concurrent" not in advice
