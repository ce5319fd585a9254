"""From which latency on threads pay, from figures of every shape; a store that does not wait."""

import pytest
import torch

from hotlap.answers import MEASURED, TIMED_OUT, Done
from hotlap.studies import storage
from hotlap.studies.study import Results, Setting

FULL = Setting(cores=2)
OVERHEAD = 1e-4  # seconds of work a sample


def rate(workers, threads, latency, *, at_zero=1.0):
    at_once = max(1, workers) * max(1, threads)
    if not latency:
        return (at_zero if threads else 1.0) / OVERHEAD
    return at_once / (latency / 1e3)


def results(setting=FULL, *, at_zero=0.5, of=rate, without=()):
    plan = storage.plan(setting)
    done = []
    for cell in plan:
        if cell.row in without:
            done.append(Done(cell=cell, status=TIMED_OUT, reason="not finished after 300 s"))
            continue
        found = {}
        for latency in storage.LATENCIES:
            workers, threads = cell.arguments["workers"], cell.arguments["threads"]
            cost = (1 + 0.01 * cell.run) / of(workers, threads, latency, at_zero=at_zero)
            found[str(latency)] = {"sample_seconds": cost, "windows": [cost] * 3}
        done.append(
            Done(
                cell=cell,
                status=MEASURED,
                figures={"latencies": found, "memory_bytes": 200 << 20},
            )
        )
    return Results(plan, done)


def read(**more):
    rows = storage.tabulate(FULL, results(**more))
    return {row.name: row for row in rows}, storage.read(FULL, rows)


def test_the_latency_from_which_threads_pay_is_said_with_how_much():
    rows, said = read()
    assert said == (
        "Best: 32 threads, 2 workers, 318 samples/s at 200 ms, 64 times 0 workers. From 5 ms on "
        "threads pay: they fetch 8.0 times (5 ms), 8.0 times (50 ms) and 8.0 times (200 ms) as "
        "much as workers alone. At 0 ms they fetch 0.50 times as much."
    )
    assert rows["32 threads"].number("gain") == pytest.approx(32, rel=0.01)
    assert rows["0 workers"].number("rate_5ms") == pytest.approx(200, rel=0.02)


def test_what_is_within_the_noise_at_no_latency_is_called_so():
    _, said = read(at_zero=1.001)
    assert "At 0 ms there is no difference beyond the noise" in said


def test_threads_that_pay_from_the_first_latency_on_need_no_exception():
    _, said = read(at_zero=2.0)
    assert "From 0 ms on threads pay: they fetch 2.0 times (0 ms)" in said
    assert said.endswith("as much as workers alone.")


def test_threads_that_never_pay_are_said_not_to():
    def slow(workers, threads, latency, *, at_zero):
        return 10.0 if threads else 100.0

    rows, said = read(of=slow)
    assert "Threads are no faster than workers alone" in said
    assert not any(row.best for row in rows.values() if row.number("threads"))


def test_threads_that_are_faster_within_the_noise_are_not_called_slower():
    def near(workers, threads, latency, *, at_zero):
        return 100.5 if threads else 100.0

    _, said = read(of=near)
    told = "Threads cannot be told from workers alone at the longest of these latencies"
    assert f"{told}, within the noise." in said
    assert "no faster" not in said


def test_rows_within_the_noise_of_the_best_are_named():
    def capped(workers, threads, latency, *, at_zero):
        return min(150.0, rate(workers, threads, latency))

    _, said = read(of=capped)
    assert said.startswith("No row is proven fastest: first is 32 threads, 149 samples/s")
    assert "but 32 threads, 2 workers cannot be told from it within the noise. " in said


def test_a_loader_without_figures_is_named():
    rows, said = read(without=("8 workers",))
    assert rows["8 workers"].status == "timed out"
    assert said.endswith("Without figures: 8 workers (timed out).")


def test_the_picture_has_a_line_for_each_loader():
    found = results()
    rate_by_latency, memory = storage.draw(FULL, storage.tabulate(FULL, found), found)
    assert [one.name for one in rate_by_latency.series] == [
        storage.name(*one) for one in storage.LOADERS
    ]
    assert rate_by_latency.series[0].x == ("0 ms", "5 ms", "50 ms", "200 ms")
    assert rate_by_latency.y.log
    assert memory.y.unit == "bytes"


def test_a_sample_waits_for_its_latency_and_not_at_all_without_one():
    waited = []
    late = storage.Late(sleep=waited.append)
    assert late[0].shape == (3, 128, 128)
    assert waited == []
    late.latency[0] = 50
    late[1]
    assert waited == pytest.approx([0.05])


def test_batches_are_as_many_as_the_next_epoch_is_told_to_have():
    batches = storage.Batches(3)
    assert list(batches) == [[0, 1, 2]]
    batches.count = 2
    assert list(batches) == [[0, 1, 2], [3, 4, 5]]
    assert len(batches) == 2


def test_epochs_go_on_for_their_time_and_are_at_least_one():
    now = [0.0]

    def clock():
        return now[0]

    def loader():
        now[0] += 1.0
        yield torch.zeros(1)

    class Loader:
        def __iter__(self):
            return loader()

    assert storage.epochs(Loader(), 4, 2.5, clock=clock) == [0.25] * 3
    assert storage.epochs(Loader(), 4, 0.0, clock=clock) == [0.25]


def test_a_cell_measures_every_latency(monkeypatch):
    monkeypatch.setattr(storage, "LATENCIES", (0, 1))
    found = storage.measure(workers=0, threads=2, batch=2, seconds=0.0)
    assert set(found["latencies"]) == {"0", "1"}
    assert found["latencies"]["1"]["sample_seconds"] > 0
    assert found["memory_bytes"] > 0


def test_without_threads_one_space_stands_between_the_sentences():
    _, said = read(without=("8 threads", "32 threads", "32 threads, 2 workers"))
    assert "times 0 workers. Without figures: 8 threads (timed out)" in said


def test_the_picture_says_with_which_loader_most_come():
    found = results()
    lines, _ = storage.draw(FULL, storage.tabulate(FULL, found), found)
    assert lines.words.endswith("; most at 200 ms with 32 threads, 2 workers.")
