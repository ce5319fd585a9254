import threading
from types import SimpleNamespace

import pytest
import torch

from hotlap.probes.loaders import MANY, SHORT, LoaderWatch
from hotlap.probes.workers import Notes


def facts(loader):
    return LoaderWatch().describe(loader)


def test_a_loader_is_described_by_what_it_was_made_with():
    dataset = torch.utils.data.TensorDataset(torch.zeros(100, 3))
    found = facts(torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True))
    assert found["dataset"] == "TensorDataset"
    assert found["sampler"] == "RandomSampler"
    assert (found["batches"], found["batch_size"], found["workers"]) == (13, 8, 0)
    assert (found["iterable"], found["pin_memory"], found["persistent_workers"]) == (
        False,
        False,
        False,
    )


def test_an_iterable_dataset_without_a_length_is_described_too():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield from range(10)

    found = facts(torch.utils.data.DataLoader(Stream(), batch_size=None))
    assert found["iterable"] is True
    assert found["batches"] is None
    assert found["batch_size"] is None


def test_something_that_is_hardly_a_loader_is_described_all_the_same():
    assert facts(torch.utils.data.dataset.Dataset())["workers"] == 0


class Iterator:
    """Enough of a loader's iterator to be referred to weakly."""


class Loader:
    num_workers = 2


def test_the_loader_that_fed_most_training_stands_first():
    watch = LoaderWatch()
    evaluation, training = Loader(), Loader()
    iterators = [Iterator(), Iterator()]
    watch.started(evaluation, iterators[0], 0.0)
    watch.started(training, iterators[1], 0.0)
    for _ in range(3):
        watch.trained_on(id(training))
    assert [one["trained"] for one in watch.summary()] == [3, 0]


def made_alike(watch, *, line=20):
    """A loader of the same line, data set and sizes as others of it."""
    loader = torch.utils.data.DataLoader(list(range(40)), batch_size=4)
    watch.made[id(loader)] = ("train.py", line, "main")
    return loader


def test_a_loader_made_anew_for_every_epoch_trains_as_the_one_before_it_did():
    watch = LoaderWatch()
    first, second, held = made_alike(watch), made_alike(watch), made_alike(watch, line=30)
    iterators = [Iterator(), Iterator()]
    assert not watch.trains(first, True)
    watch.started(first, iterators[0], 0.0)
    watch.trained_on(id(first))
    assert watch.trains(first, True)
    assert watch.trains(first, False)
    assert watch.trains(second, True)
    assert not watch.trains(second, False)  # an evaluation on such a loader
    assert not watch.trains(held, True)


def test_a_loader_that_was_started_and_fed_no_training_is_like_no_other():
    watch = LoaderWatch()
    training, held = made_alike(watch), made_alike(watch)
    iterators = [Iterator(), Iterator()]
    watch.started(held, iterators[0], 0.0)
    watch.started(training, iterators[1], 0.0)
    watch.trained_on(id(training))
    assert not watch.trains(held, True)


def test_a_loader_that_cannot_be_described_is_like_no_other():
    class Odd(Loader):
        @property
        def sampler(self):
            raise RuntimeError("not before the first epoch")

    watch, odd = LoaderWatch(), Odd()
    watch.made[id(odd)] = ("train.py", 20, "main")
    assert not watch.trains(odd, True)


def test_batches_that_another_thread_fetches_come_from_elsewhere():
    watch = LoaderWatch()
    me = threading.get_ident()
    watch.fetched(1, None)  # nobody knows yet who trains
    watch.fetched(1, me)
    watch.fetched(2, me + 1)
    watch.trained_on(1)
    assert not watch.feeds_from_elsewhere  # that loader feeds no training
    watch.trained_on(2)
    watch.trained_on(2)
    assert watch.feeds_from_elsewhere


def test_a_loader_started_every_epoch_is_told_once():
    watch = LoaderWatch()
    loader = Loader()
    iterators = [Iterator() for _ in range(3)]
    for iterator in iterators:
        watch.started(loader, iterator, 0.0)
    assert len(watch.summary()) == 1


def test_waiting_is_told_apart_only_where_there_was_any():
    watch = LoaderWatch()
    assert set(watch.split().values()) == {None}
    watch.wait_seconds, watch.wait_cpu_seconds = 2.0, 0.5
    watch.workers_wall_seconds, watch.workers_cpu_seconds = 8.0, 3.0
    watch.workers_making_seconds = 4.0
    assert watch.split() == {
        "wait_cpu_share": 0.25,
        "workers_cpu_share": 0.75,
        "workers_making_share": 0.5,
        "new_workers_making_seconds": None,
    }


def test_workers_that_are_idle_wait_on_no_storage():
    watch = LoaderWatch()
    watch.workers_wall_seconds, watch.workers_cpu_seconds = 10.0, 3.0
    watch.workers_making_seconds = 2.0  # the rest of what they burn is handing over
    assert watch.split()["workers_cpu_share"] == 1.0
    assert watch.split()["workers_making_share"] == 0.2


def test_the_cpu_clock_is_read_again_as_soon_as_a_fetch_takes_long():
    watch = LoaderWatch()
    for _ in range(MANY):
        assert watch.asks_for_cpu
        watch.waited(SHORT / 2, SHORT / 4)
    assert not watch.asks_for_cpu
    before = watch.wait_seconds, watch.wait_cpu_seconds
    watch.waited(SHORT / 2, None)  # waited for nobody: burned
    assert watch.wait_seconds - before[0] == pytest.approx(SHORT / 2)
    assert watch.wait_cpu_seconds - before[1] == pytest.approx(SHORT / 2)
    watch.waited(1.0, None)  # who knows what it did
    assert watch.wait_seconds < 1
    assert watch.asks_for_cpu
    watch.waited(1.0, 0.25)
    assert watch.split()["wait_cpu_share"] == pytest.approx(0.25, rel=0.01)


def test_workers_that_vanish_within_a_window_are_left_out():
    watch = LoaderWatch()
    iterator = Iterator()
    iterator._workers = [SimpleNamespace(pid=None), SimpleNamespace(pid=2**22 + 1)]
    watch.iterators[iterator] = 7
    watch.open_window()
    watch.close_window()
    assert watch.split()["workers_cpu_share"] is None


def over_a_window(watch, clock, monkeypatch, *, seconds, making, evaluating=0.0):
    """A window of so many seconds, in which each worker made batches for as long as is told."""
    monkeypatch.setattr("hotlap.probes.loaders.time.perf_counter", lambda: clock[0])
    read = iter([dict.fromkeys(making, (0.0, 0.0)), {pid: (0.0, s) for pid, s in making.items()}])
    monkeypatch.setattr(watch, "_read_workers", lambda: next(read))
    watch.open_window()
    clock[0] += seconds
    watch.close_window(evaluating=evaluating)
    return watch.split()["workers_making_share"]


def serving(watch, loader, *pids):
    iterator = Iterator()
    iterator._workers = [SimpleNamespace(pid=pid) for pid in pids]
    watch.started(loader, iterator, 0.0)
    return iterator


def test_idle_workers_of_a_loader_that_only_evaluates_do_not_count(monkeypatch):
    watch, training, evaluation = LoaderWatch(), Loader(), Loader()
    kept = [serving(watch, training, 41, 42), serving(watch, evaluation, 43, 44, 45)]
    making = {41: 9.0, 42: 9.0, 43: 0.0, 44: 0.0, 45: 0.0}
    watch.trained_on(id(training))
    share = over_a_window(watch, [0.0], monkeypatch, seconds=10.0, making=making)
    assert share == pytest.approx(0.9)
    assert watch.workers() == [41, 42, 43, 44, 45]
    assert kept


def test_where_nobody_knows_what_is_trained_on_all_workers_count(monkeypatch):
    watch = LoaderWatch()
    kept = serving(watch, Loader(), 41)
    assert over_a_window(watch, [0.0], monkeypatch, seconds=10.0, making={41: 5.0}) == 0.5
    assert kept


def test_workers_that_wait_for_an_evaluation_to_end_are_not_idle(monkeypatch):
    watch, training = LoaderWatch(), Loader()
    kept = serving(watch, training, 41)
    watch.trained_on(id(training))
    found = over_a_window(watch, [0.0], monkeypatch, seconds=10.0, making={41: 4.0}, evaluating=6.0)
    assert found == pytest.approx(1.0)
    assert kept


def test_installing_keeps_the_loaders_signature_and_everything_made_with_it(in_python):
    in_python(
        """
        import copy, inspect, pickle
        from types import SimpleNamespace
        import torch
        from hotlap.probes.hooks import Hooks
        from torch.utils.data import DataLoader, TensorDataset
        from hotlap.probes import loaders

        class Recorder:
            timing = False
            passes = SimpleNamespace(timeline=SimpleNamespace(watching=True))
            fetches = starts = 0
            loaders = loaders.LoaderWatch()
            def enter(self, phase): pass
            def leave(self, phase): pass
            def loader_starts(self, loader): pass
            def fetched(self, iterator, batch): self.fetches += 1
            def loader_started(self, loader, iterator, seconds):
                self.starts += 1
                self.loaders.started(loader, iterator, seconds)

        recorder = Recorder()
        recorder.hooks = Hooks(torch, recorder)
        signature = inspect.signature(DataLoader.__init__)
        doc, name = DataLoader.__init__.__doc__, DataLoader.__init__.__qualname__
        loaders.install(torch, recorder)

        assert inspect.signature(DataLoader.__init__) == signature
        named = inspect.signature(DataLoader).parameters.keys()
        assert {"self", *named} == set(signature.parameters)
        assert DataLoader.__init__.__doc__ == doc
        assert DataLoader.__init__.__qualname__ == name

        data = TensorDataset(torch.arange(10.0))
        loader = DataLoader(data, batch_size=4, shuffle=False)
        assert loader.dataset is data and loader.batch_size == 4 and loader.num_workers == 0
        assert type(loader) is DataLoader and len(loader) == 3
        batches = [batch[0].tolist() for batch in loader]
        assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], batches
        assert (recorder.starts, recorder.fetches) == (1, 3)
        assert next(iter(loader))[0].tolist() == [0, 1, 2, 3]

        class Own(DataLoader):
            def __init__(self, dataset, size=5):
                super().__init__(dataset, batch_size=size)
            def __iter__(self):
                for batch in super().__iter__():
                    yield batch[0] + 1

        assert [batch.tolist() for batch in Own(data)] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
        assert len(pickle.loads(pickle.dumps(loader))) == 3
        assert len(list(copy.copy(loader))) == 3

        try:
            loader.batch_size = 8
        except ValueError:
            pass
        else:
            raise AssertionError("a loader's batch size can be changed")

        class Equal(DataLoader):
            def __eq__(self, other): return type(other) is type(self)

        equal = Equal(data, batch_size=5)
        assert len(list(equal)) == 2
        facts = recorder.loaders.describe(equal)
        assert facts["batch_size"] == 5

        recorder.timing = True
        assert len(list(loader)) == 3
        assert recorder.loaders.wait_seconds > 0

        fetches, recorder.passes.timeline.watching = recorder.fetches, False
        assert len(list(loader)) == 3
        assert recorder.fetches == fetches, "a step nobody looks into is told to nobody"
        recorder.passes.timeline.watching = True

        class Failing(TensorDataset):
            def __getitem__(self, index): raise RuntimeError("bad sample")

        try:
            next(iter(DataLoader(Failing(torch.zeros(3)))))
        except RuntimeError as problem:
            assert "bad sample" in str(problem)
        else:
            raise AssertionError("the dataset's own error was swallowed")

        made = DataLoader(data)
        iter(made)
        assert recorder.loaders.describe(made)["dataset"] == "TensorDataset"
        """
    )


def test_a_loader_is_known_by_where_it_was_made_however_it_compares():
    class Equal(Loader):
        def __eq__(self, other):
            return True

    watch = LoaderWatch()
    first, second = Equal(), Equal()
    watch.made[id(first)] = ("train.py", 3, "main")
    watch.made[id(second)] = ("train.py", 9, "main")
    assert [watch.describe(one)["line"] for one in (first, second)] == [3, 9]


def test_a_loader_in_the_place_of_one_thrown_away_is_described_by_itself():
    watch = LoaderWatch()
    gone = torch.utils.data.DataLoader(range(64), batch_size=64)
    new = torch.utils.data.DataLoader(range(64), batch_size=4)
    watch.facts[id(new)] = watch.describe(gone)  # as if it had lived at this address
    watch.started(new, iter(new), 0.0)
    assert watch.facts[id(new)]["batch_size"] == 4


def test_what_new_workers_made_is_told_of_loaders_that_train(tmp_path):
    notes = Notes(tmp_path)
    watch = LoaderWatch(notes)
    training, evaluation = Loader(), Loader()
    watch.trained_on(id(training))
    watch.open_window()
    kept = []
    for pid, loader in ((41, training), (42, training), (43, evaluation)):
        iterator = Iterator()
        iterator._workers = [SimpleNamespace(pid=pid), SimpleNamespace(pid=None)]
        for _ in range(2):  # workers that persist are started once
            watch.started(loader, iterator, 0.0)
        kept.append(iterator)
    told = {41: 0.1, 42: 0.3, 43: 9.0}
    notes.making = lambda pids, *, under_way=True: {pid: told[pid] for pid in pids}
    watch._read_crews()
    assert watch.crews_making == [0.1, 0.3]
    assert watch.split()["new_workers_making_seconds"] == pytest.approx(0.2)
    assert LoaderWatch().split()["new_workers_making_seconds"] is None


class Share:
    """As accelerate's: hands out another sampler's batches."""

    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def __iter__(self):
        return iter(self.batch_sampler)


def test_a_loader_made_anew_around_torchs_batches_has_their_size():
    loader = torch.utils.data.DataLoader(list(range(40)), batch_size=8, shuffle=True)
    for batches in (loader.batch_sampler, Share(loader.batch_sampler)):
        found = facts(torch.utils.data.DataLoader(list(range(40)), batch_sampler=batches))
        assert (found["batch_size"], found["sampler"]) == (8, "RandomSampler")
    own = facts(torch.utils.data.DataLoader(list(range(4)), batch_sampler=[[0, 1], [2, 3]]))
    assert (own["batch_size"], own["sampler"]) == (None, "SequentialSampler")


IN_A_ROW = """
import json, sys
from pathlib import Path
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from hotlap.probes.install import install
import torch
recorder = install(torch, Path(sys.argv[1]), 0.0)
told = []
recorder._tally.tell = lambda what: told.append(what[1])

def in_a_row(samples):
    return {"ids": torch.cat(samples)[None], "at": torch.cat(samples)[None]}

def pairs(samples):
    return {"ids": torch.stack(samples * 2), "at": torch.stack(samples * 2)}

data = [torch.arange(5)] * 14
sampler = BatchSampler(SequentialSampler(data), 4, False)
for loader in (
    DataLoader(data, batch_size=4, collate_fn=in_a_row),
    DataLoader(data, batch_sampler=sampler, collate_fn=in_a_row),
    DataLoader(data, batch_size=4, collate_fn=in_a_row, num_workers=1),
    DataLoader(data, batch_sampler=sampler, collate_fn=pairs),
):
    list(loader)
print(json.dumps(told))
"""


def test_sequences_in_a_single_row_and_pairs_are_as_many_samples_as_were_asked_for(
    in_python, trial
):
    output = in_python(IN_A_ROW, str(trial))
    told = [4, 4, 4, 1], [4, 4, 4, 2]  # a last batch of one cannot be told from a row
    assert output.strip() == str([*told[0], *told[1], *told[0], *told[1]])
