"""All samples of a batch are fetched at once, by threads: for storage that answers late.

A loader's worker fetches one sample after the other, so 64 samples that take 30 ms each take two
seconds, most of it waiting. torch's DataLoader asks a dataset that has `__getitems__` for the whole
batch; `Concurrent` has it, around any map-style dataset.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from hotlap.data.attempts import RETRY, Attempts, Sleep, TookTooLong
from hotlap.data.batches import Batch, Call, Problem, kept
from hotlap.data.crews import EXIT_SECONDS, Crew, PerProcess
from hotlap.data.failures import RAISE, SKIP, Failures

Many = Callable[[list[Any]], Any]
OWN = frozenset({"dataset", "threads", "failures", "_attempts", "_crew"})


class Concurrent(Dataset):  # type: ignore[misc]
    """A map-style dataset whose batches are fetched by `threads` threads in the calling process.

    Attributes of the wrapped dataset are read from it and written to it.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        threads: int = 32,
        on_error: str = RAISE,
        timeout: float | None = None,
        retries: int = 0,
        retry: tuple[type[Exception], ...] = RETRY,
        backoff: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = threading.Event.wait,
    ) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            kind = type(dataset).__name__
            raise TypeError(f"{kind} has no samples to ask for by index; Concurrent needs those")
        if not isinstance(threads, int) or threads < 1:
            raise ValueError(f"threads is {threads!r}; it is a number of threads, 1 or more")
        self.dataset = dataset
        self.threads = threads
        self.failures = Failures(on_error)
        self._attempts = Attempts(
            retries=retries,
            retry=retry,
            backoff=backoff,
            timeout=timeout,
            clock=clock,
            sleep=sleep,
        )
        self._crew = PerProcess(functools.partial(Crew, threads))

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        """One sample, here and now: it cannot be skipped, and `timeout` is for batches."""
        try:
            return self._single(index)(threading.Event())
        except Exception as problem:
            if isinstance(problem, IndexError) and self._beyond(index):
                raise  # what ends a plain `for sample in dataset`
            self.failures.raise_for(index, problem)

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        indices = list(indices)
        many = getattr(self.dataset, "__getitems__", None)
        if many is None:
            calls = [self._single(index) for index in indices]
            return kept(self.failures, indices, self._run(calls, indices, each=1))
        size = -(-len(indices) // self.threads) or 1
        chunks = [indices[at : at + size] for at in range(0, len(indices), size)]
        calls = [functools.partial(self._chunk, many, chunk) for chunk in chunks]
        got: list[Any] = []
        for chunk, samples in zip(chunks, self._run(calls, chunks, each=size), strict=True):
            got += samples if isinstance(samples, list) else [samples] * len(chunk)
        return kept(self.failures, indices, got)

    def _run(self, calls: Sequence[Call], names: Sequence[Any], *, each: int) -> list[Any]:
        limit = self._attempts.timeout
        timeout = None if limit is None else limit * each
        batch = Batch(calls, names, clock=self._attempts.clock, timeout=timeout)
        return batch.run(self._crew.get(), to_the_end=self.failures.on_error == SKIP)

    def _single(self, index: Any) -> Call:
        call = functools.partial(operator.getitem, self.dataset, index)
        return functools.partial(self._attempts.run, call)

    def _chunk(self, many: Many, chunk: list[Any], stopped: threading.Event) -> list[Any]:
        """Where several fail together, one after the other: only so the one to blame is known."""
        call = functools.partial(_asked, many, chunk)
        if len(chunk) == 1:
            return list(self._attempts.run(call, stopped))
        try:
            return call()
        except Exception:
            return [self._alone(many, index, stopped) for index in chunk]

    def _alone(self, many: Many, index: Any, stopped: threading.Event) -> Any:
        if stopped.is_set():
            return Problem(TookTooLong("called off before it was asked for"))
        try:
            return self._attempts.run(functools.partial(_asked, many, [index]), stopped)[0]
        except Exception as problem:
            return Problem(problem)

    def close(self) -> None:
        """Ends the threads of this process; another batch starts new ones."""
        crew = self._crew.drop()
        if crew is not None:
            crew.end(EXIT_SECONDS)

    def _beyond(self, index: Any) -> bool:
        try:
            return not -len(self.dataset) <= operator.index(index) < len(self.dataset)
        except TypeError:
            return True

    def __getattr__(self, name: str) -> Any:
        # Special names are asked for by pickle and copy, also before there is a dataset.
        if name.startswith("__") or "dataset" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """`loader.dataset.transform = ...` means the dataset that transforms."""
        if name in OWN:
            super().__setattr__(name, value)
        else:
            setattr(self.dataset, name, value)


def _asked(many: Many, indices: list[Any]) -> list[Any]:
    samples = list(many(indices))
    if len(samples) != len(indices):
        raise ValueError(f"__getitems__ gave {len(samples)} samples for {len(indices)} indices")
    return samples
