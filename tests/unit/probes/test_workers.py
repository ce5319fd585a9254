import os

import pytest

from hotlap.probes import workers
from hotlap.probes.workers import Notes


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(workers.time, "perf_counter", lambda: Clock.now)
    return Clock


def test_what_a_worker_spends_on_batches_is_known_to_others(tmp_path, clock):
    worker, training = Notes(tmp_path), Notes(tmp_path)
    for _ in range(3):
        worker.begin()
        clock.now += 2.0
        worker.end()
        clock.now += 5.0
    assert training.making([os.getpid(), os.getpid() + 1]) == {os.getpid(): 6.0}


def test_a_batch_in_the_making_counts_up_to_now(tmp_path, clock):
    worker = Notes(tmp_path)
    worker.begin()
    clock.now += 3.0
    assert Notes(tmp_path).making([os.getpid()]) == {os.getpid(): 3.0}


def test_a_process_with_the_slot_of_another_is_not_taken_for_it(tmp_path, clock):
    worker = Notes(tmp_path)
    worker.begin()
    assert Notes(tmp_path).making([os.getpid() + workers.SLOTS]) == {}


def test_where_nothing_can_be_written_nothing_is_known(tmp_path, clock):
    worker = Notes(tmp_path / "gone")
    worker.begin()
    worker.end()
    assert worker.making([os.getpid()]) == {}


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_the_workers_of_a_loader_tell_and_the_training_process_does_not(
    in_python, tmp_path, context
):
    (tmp_path / "sleeping.py").write_text(
        """
import time
from pathlib import Path
from types import SimpleNamespace
import torch
from hotlap.probes import workers
from hotlap.probes.loaders import LoaderWatch

watch = LoaderWatch(workers.Notes(Path(".")))
workers.install(torch, SimpleNamespace(loaders=watch))

class Sleeping(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, index):
        time.sleep(0.02)
        return index
"""
    )
    in_python(
        f"""
        import os, sys
        sys.path.insert(0, ".")
        from sleeping import Sleeping, torch, watch

        def main():
            list(torch.utils.data.DataLoader(Sleeping(), batch_size=4))
            assert watch.notes.making([os.getpid()]) == {{}}
            loader = torch.utils.data.DataLoader(
                Sleeping(), batch_size=4, num_workers=1, multiprocessing_context="{context}"
            )
            batches = iter(loader)
            watch.iterators[batches] = id(loader)
            next(batches)
            watch.open_window()
            next(batches)
            next(batches)
            watch.close_window()
            assert watch.split()["workers_making_share"] > 0.5, watch.split()
            assert watch.split()["workers_cpu_share"] < 0.5, watch.split()
            list(batches)

        main()
        """
    )
