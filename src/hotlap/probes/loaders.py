"""DataLoader iteration, watched on the class: no proxy objects, no generators, signatures kept."""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from hotlap.probes import places
from hotlap.probes.batches import innermost, samples_in
from hotlap.probes.timeline import INPUT
from hotlap.probes.workers import Notes

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder

_TICKS = os.sysconf("SC_CLK_TCK")
SHORT = 1e-4  # seconds: what came as fast waited for nobody
MANY = 16
MOST_CREWS = 500


class LoaderWatch:
    """What is known of every loader made: how, where, and what its workers burn."""

    def __init__(self, notes: Notes | None = None) -> None:
        self.notes = notes
        self.made: dict[int, tuple[str, int, str] | None] = {}  # by id: a loader may not hash
        self.trained: dict[int, int] = {}  # id -> batches trained on
        self.facts: dict[int, dict[str, Any]] = {}
        self._elsewhere: set[int] = set()  # those whose batches another thread fetches
        self.iterators: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.wait_seconds = 0.0  # within phases windows, with the CPU the waiting thread burned
        self.wait_cpu_seconds = 0.0
        self._short = 0  # fetches in a row
        self.workers_cpu_seconds = 0.0
        self.workers_making_seconds = 0.0
        self.workers_wall_seconds = 0.0
        self.crews_making: list[float] = []  # seconds, of workers started within phases windows
        self._crews: list[tuple[int, list[int]]] = []  # loader, its new workers
        self._window: dict[int, tuple[float, float]] = {}
        self._window_start = 0.0
        self._ready_before = (0.0, 0.0)
        self._waited_before = (0.0, 0.0)

    def afresh(self) -> LoaderWatch:
        """For a record that starts over: the loaders stay known, what they did is forgotten."""
        other = LoaderWatch(self.notes)
        other.made, other.facts, other.iterators = self.made, self.facts, self.iterators
        return other

    def describe(self, loader: Any) -> dict[str, Any]:
        place = self.made.get(id(loader))
        dataset = getattr(loader, "dataset", None)
        sampler, size = getattr(loader, "sampler", None), getattr(loader, "batch_size", None)
        batches = innermost(getattr(loader, "batch_sampler", None))
        if size is None and type(batches).__module__.startswith("torch."):
            sampler, size = batches.sampler, batches.batch_size  # as accelerate makes loaders anew
        try:
            length: int | None = len(loader)
        except Exception:  # an IterableDataset without a length, or the user's own failing one
            length = None
        context = getattr(loader, "multiprocessing_context", None)
        return {
            "dataset": type(dataset).__name__,
            "sampler": type(sampler).__name__ if sampler is not None else None,
            "iterable": "Iterable" in str(getattr(loader, "_dataset_kind", ""))
            or getattr(loader, "_dataset_kind", 0) == 1,
            "batches": length,
            "batch_size": size,
            "workers": getattr(loader, "num_workers", 0),
            "prefetch_factor": getattr(loader, "prefetch_factor", None),
            "pin_memory": bool(getattr(loader, "pin_memory", False)),
            "persistent_workers": bool(getattr(loader, "persistent_workers", False)),
            "context": getattr(context, "_name", None) or None,
            "file": place[0] if place else None,
            "line": place[1] if place else None,
        }

    def started(self, loader: Any, iterator: Any, seconds: float) -> None:
        if iterator not in self.iterators:
            self._crews.append((id(loader), _workers(iterator)))
            del self._crews[:-MOST_CREWS]
        self.iterators[iterator] = id(loader)
        self.facts[id(loader)] = self.describe(loader)

    def fetched(self, loader: int, training: int | None) -> None:
        """Called by the thread that fetches; `training` is the one that trains, once known."""
        if training is not None and threading.get_ident() != training:
            self._elsewhere.add(loader)

    def trains(self, loader: Any, gradients: bool) -> bool:
        """Whether it was trained on, or one like it: some scripts make theirs anew for every epoch.

        `gradients`: whether they are enabled. If not, as in an evaluation, likeness says nothing.
        """
        if id(loader) in self.trained or not gradients or id(loader) not in self.made:
            return id(loader) in self.trained
        try:
            facts = self.describe(loader)
        except Exception:  # a loader with a will of its own
            return False
        if facts == self.facts.get(id(loader)):  # it was started before, and fed no training
            return False
        return any(self.facts.get(one) == facts for one in self.trained)

    def trained_on(self, loader: int) -> None:
        self.trained[loader] = self.trained.get(loader, 0) + 1

    def not_trained_on(self, loader: int) -> None:
        """After all."""
        self.trained.pop(loader, None)

    @property
    def asks_for_cpu(self) -> bool:
        """Reading the CPU clock is felt: not where fetch after fetch takes no time."""
        return self._short < MANY

    def waited(self, seconds: float, cpu_seconds: float | None) -> None:
        """For a batch; `cpu_seconds` is None where nobody read that clock."""
        if seconds < SHORT:
            self._short += 1
        else:
            self._short = 0
            if cpu_seconds is None:
                return  # the next one's are read again
        self.wait_seconds += seconds
        self.wait_cpu_seconds += seconds if cpu_seconds is None else cpu_seconds

    def open_window(self) -> None:
        """Called by the training thread, as `close_window` is."""
        self._crews = []
        self._window = self._read_workers()
        self._window_start = time.perf_counter()
        self._ready_before = _scheduled("thread-self")
        self._waited_before = (self.wait_seconds, self.wait_cpu_seconds)

    def close_window(self, *, evaluating: float = 0.0) -> None:
        """`evaluating`: seconds of the window in which nobody asked for batches to train on."""
        after = self._read_workers()
        wall = time.perf_counter() - self._window_start
        training = set(self._serving(self.trained or None))
        for pid, (burned, making) in after.items():
            if pid in self._window and pid in training:
                self.workers_cpu_seconds += min(wall, burned - self._window[pid][0])
                self.workers_making_seconds += making - self._window[pid][1]
                self.workers_wall_seconds += max(0.0, wall - evaluating)
        self._window = {}
        self._read_crews()
        # On a busy machine a thread that has work waits for a core: that is not waiting on storage.
        ran, queued = _scheduled("thread-self")
        ran, queued = ran - self._ready_before[0], queued - self._ready_before[1]
        waited = self.wait_seconds - self._waited_before[0]
        burned = self.wait_cpu_seconds - self._waited_before[1]
        if ran > 0:
            self.wait_cpu_seconds += max(0.0, min(waited - burned, burned * queued / ran))

    def _read_workers(self) -> dict[int, tuple[float, float]]:
        """Of each worker that tells: seconds on a core or waiting for one, and making batches."""
        found: dict[int, tuple[float, float]] = {}
        making = self.notes.making(self.workers()) if self.notes is not None else {}
        for pid in making:
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            queued = _scheduled(str(pid))[1]
            burned = (int(fields[11]) + int(fields[12])) / _TICKS + queued
            found[pid] = burned, making[pid]
        return found

    def _read_crews(self) -> None:
        """How long new workers of loaders that train made batches: the longest of each crew."""
        crews = [pids for loader, pids in self._crews if pids and loader in self.trained]
        if self.notes is None or not crews:
            return
        making = self.notes.making([pid for pids in crews for pid in pids], under_way=False)
        for pids in crews:
            self.crews_making.append(max(making.get(pid, 0.0) for pid in pids))

    def workers(self) -> list[int]:
        """The process numbers of those that serve loaders now."""
        return self._serving(None)

    def _serving(self, loaders: Container[int] | None) -> list[int]:
        """Those that serve these loaders; a loader that only evaluates leaves its own idle."""
        return [
            pid
            for iterator, loader in list(self.iterators.items())
            if loaders is None or loader in loaders
            for pid in _workers(iterator)
        ]

    def summary(self) -> list[dict[str, Any]]:
        """The loaders that were iterated, the one that fed most training first."""
        found = [
            {**facts, "trained": self.trained.get(key, 0)} for key, facts in self.facts.items()
        ]
        found.sort(key=lambda facts: -facts["trained"])
        return found[:8]

    @property
    def feeds_from_elsewhere(self) -> bool:
        """Whether another thread fetches most of what is trained on: nobody sees the loop wait."""
        fetched = sum(self.trained.get(loader, 0) for loader in self._elsewhere)
        return 2 * fetched > sum(self.trained.values())

    def split(self) -> dict[str, float | None]:
        """How much of the waiting was burning CPU: in the waiting thread, and in the workers.

        What a worker burns is held against the time it makes batches: while it waits for orders
        or for its batches to be taken, it waits on no storage.
        """
        known, making = self.workers_wall_seconds > 0, self.workers_making_seconds
        return {
            "wait_cpu_share": (
                self.wait_cpu_seconds / self.wait_seconds if self.wait_seconds > 0 else None
            ),
            "workers_cpu_share": (
                self.workers_cpu_seconds / max(self.workers_cpu_seconds, making, 1e-9)
                if known
                else None
            ),
            "workers_making_share": (
                min(1.0, making / self.workers_wall_seconds) if known else None
            ),
            "new_workers_making_seconds": (
                sum(self.crews_making) / len(self.crews_making) if self.crews_making else None
            ),
        }


def _workers(iterator: Any) -> list[int]:
    found = [getattr(worker, "pid", None) for worker in getattr(iterator, "_workers", ())]
    return [pid for pid in found if pid is not None]


def samples_of(iterator: Any, batch: Any) -> int | None:
    """Those of the batch that was handed out last."""
    size: int | None = getattr(iterator, "_hotlap_batch_size", None)
    _, sizes = getattr(iterator, "_hotlap_sizes", (None, ()))
    handed_out = getattr(iterator, "_num_yielded", 0)
    is_whole = False  # it is known to be made of as many samples as that
    if size is None and 0 < handed_out <= len(sizes):
        size, is_whole = sizes[handed_out - 1], True
    samples = samples_in(batch, size)
    if samples not in (None, 1) or size is None or size == 1:
        return samples
    # All in a single row, one after another; or each in several, as pairs are.
    return size if is_whole or _has_more(iterator, handed_out) else samples


def _has_more(iterator: Any, handed_out: int) -> bool:
    """Whether other batches follow: the last one of an epoch may be of a single sample."""
    try:
        return getattr(iterator, "_dataset_kind", None) == 0 and handed_out < len(iterator)
    except Exception:  # a sampler that does not know how much it hands out
        return False


def _note_sizes(base: Any) -> None:
    """From now on iterators keep how many indices a sampler of batches gave for each batch."""
    plain_index = base._next_index
    if hasattr(plain_index, "_hotlap"):
        return

    @functools.wraps(plain_index)
    def next_index(self: Any) -> Any:
        index = plain_index(self)
        kept = getattr(self, "_hotlap_sizes", None)
        if kept is None or kept[0] is not self._sampler_iter:  # another epoch
            sizes: list[int | None] = []
            kept = self._hotlap_sizes = (self._sampler_iter, sizes)
        kept[1].append(len(index) if isinstance(index, (list, tuple)) else None)
        return index

    next_index._hotlap = True  # type: ignore[attr-defined]
    base._next_index = next_index


def _scheduled(task: str) -> tuple[float, float]:
    """Seconds a task has run, and waited for a core while it could have."""
    try:
        with open(f"/proc/{task}/schedstat") as file:
            ran, queued, _ = file.read().split()
    except (OSError, ValueError):
        return 0.0, 0.0
    return int(ran) * 1e-9, int(queued) * 1e-9


def install(torch: Any, recorder: Recorder) -> None:
    data = torch.utils.data
    module = torch.utils.data.dataloader
    base = module._BaseDataLoaderIter
    plain_init = data.DataLoader.__init__
    plain_iter = data.DataLoader.__iter__
    plain_next = base.__next__
    nothing = object()
    inside = threading.local()  # a loader may feed another: only the outer one is the loop's

    @functools.wraps(plain_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain_init(self, *args, **kwargs)
        recorder.loaders.made[id(self)] = places.here(2)
        if self.batch_size is None and self.batch_sampler is not None:
            _note_sizes(base)

    def begun(loader: Any, begin: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        recorder.enter(INPUT)
        recorder.loader_starts(loader)
        inside.a_loader = True
        try:
            iterator = begin()
        finally:
            inside.a_loader = False
            recorder.leave(INPUT)
        recorder.loader_started(loader, iterator, time.perf_counter() - started)
        return iterator

    @functools.wraps(plain_iter)
    def iterate(self: Any) -> Any:
        if getattr(inside, "a_loader", False):
            return plain_iter(self)
        return begun(self, functools.partial(plain_iter, self))

    def beginning(plain: Any) -> Any:
        """Of an iterator that is made past `__iter__`, as by loaders that go on for ever."""

        @functools.wraps(plain)
        def init(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            def begin() -> Any:
                plain(self, loader, *args, **kwargs)
                return self

            if getattr(inside, "a_loader", False):
                begin()
                return
            recorder.loaders.made.setdefault(id(loader), places.here(2))
            begun(loader, begin)

        return init

    @functools.wraps(plain_next)
    def following(self: Any) -> Any:
        if not recorder.passes.timeline.watching or getattr(inside, "a_loader", False):
            return plain_next(self)
        timing = recorder.timing
        if timing:
            recorder.enter(INPUT)
            watch = recorder.loaders
            cpu = time.thread_time() if watch.asks_for_cpu else None
            wall = time.perf_counter()
        batch: Any = nothing
        inside.a_loader = True
        try:
            batch = plain_next(self)
        finally:
            inside.a_loader = False
            if timing:
                took = time.perf_counter() - wall
                watch.waited(took, None if cpu is None else time.thread_time() - cpu)
            if batch is not nothing:
                recorder.fetched(self, batch)
            recorder.leave(INPUT)  # last: what follows at once can share its event
        return batch

    data.DataLoader.__init__ = init
    data.DataLoader.__iter__ = iterate
    for kind in (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter):
        kind.__init__ = beginning(kind.__init__)
    recorder.hooks.replace(base, "__next__", following)
