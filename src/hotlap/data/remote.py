"""Samples that are objects in a store: s3://, gs://, https://, a folder; whatever fsspec opens.

An asynchronous filesystem fetches a whole batch in one event loop, which costs less than a thread
for each object. Others are asked by threads. A filesystem is opened by the process that uses it: it
does not survive a fork.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset

from hotlap.data.attempts import RETRY, Attempts
from hotlap.data.batches import Batch, Problem, kept
from hotlap.data.crews import EXIT_SECONDS, Crew, PerProcess
from hotlap.data.failures import RAISE, SKIP, Failures
from hotlap.data.loops import fetch_all
from hotlap.data.paths import Paths, plain


class Objects(Dataset):  # type: ignore[misc]
    """A map-style dataset: what `decode` makes of the bytes of each path, with its target if given.

    `fs` is where the paths start, as a URL: "s3://bucket/train", "https://host/set", "/folder".
    Without it the paths are URLs themselves, all of one kind. `options` are the filesystem's own.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        fs: str | os.PathLike[str] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        decode: Callable[[bytes], Any] | None = None,
        targets: Any = None,
        at_once: int = 64,
        on_error: str = RAISE,
        timeout: float | None = None,
        retries: int = 3,
        retry: tuple[type[Exception], ...] = RETRY,
        backoff: float = 0.1,
    ) -> None:
        _fsspec()  # better told here than by a worker
        if not isinstance(at_once, int) or at_once < 1:
            raise ValueError(f"at_once is {at_once!r}; it is a number of fetches, 1 or more")
        self.paths = paths if isinstance(paths, Paths) else Paths(paths)
        if decode is not None and not callable(decode):
            raise TypeError(f"decode is {decode!r}; it is a function of the bytes of an object")
        self.targets = None if targets is None else _numbers(targets)
        if self.targets is not None and len(self.targets) != len(self.paths):
            raise ValueError(f"{len(self.targets)} targets for {len(self.paths)} paths")
        self.decode = decode
        self.failures = Failures(on_error)
        self._at_once = at_once
        self._attempts = Attempts(retries=retries, retry=retry, backoff=backoff, timeout=timeout)
        # As words, never as an open filesystem: each process opens its own.
        where = plain(fs) if fs is not None else self.paths[0] if len(self.paths) else ""
        self._store = PerProcess(functools.partial(Store, where, dict(options or {}), fs is None))
        self._crew = PerProcess(functools.partial(Crew, at_once))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        path = self.paths[index]  # out of range: what ends a plain `for sample in dataset`
        try:
            sample = self._made(index, self._fetch([path])[0])
            if isinstance(sample, Problem):
                raise sample.error
        except Exception as problem:
            self.failures.raise_for(index, problem)
        return sample

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        indices = list(indices)
        found = [self._path(index) for index in indices]
        paths = [path for path in found if isinstance(path, str)]
        fetched = iter(self._fetch(paths))
        got = [next(fetched) if isinstance(one, str) else one for one in found]
        samples = [self._made(index, one) for index, one in zip(indices, got, strict=True)]
        return kept(self.failures, indices, samples)

    def close(self) -> None:
        """Ends the threads of this process; another batch starts new ones."""
        crew = self._crew.drop()
        if crew is not None:
            crew.end(EXIT_SECONDS)

    def _path(self, index: Any) -> str | Problem:
        try:
            return self.paths[index]
        except (IndexError, TypeError) as problem:
            return Problem(problem)

    def _fetch(self, paths: list[str]) -> list[Any]:
        store, attempts = self._store.get(), self._attempts
        to_the_end = self.failures.on_error == SKIP
        if store.asynchronous:
            return fetch_all(
                store.filesystem.loop,
                [functools.partial(store.read_later, path) for path in paths],
                attempts=attempts,
                at_once=self._at_once,
                to_the_end=to_the_end,
            )
        calls = [
            functools.partial(attempts.run, functools.partial(store.read, path)) for path in paths
        ]
        batch = Batch(calls, paths, timeout=attempts.timeout, clock=attempts.clock)
        return batch.run(self._crew.get(), to_the_end=to_the_end)

    def _made(self, index: Any, got: Any) -> Any:
        """In the calling thread: a decoder need not know of threads."""
        if got is None or isinstance(got, Problem):
            return got  # None: dropped, because another has failed
        try:
            sample = got if self.decode is None else self.decode(got)
        except Exception as problem:
            return Problem(problem)
        return sample if self.targets is None else (sample, self.targets[index])


def _numbers(targets: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(targets)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise TypeError(
            f"targets cannot be a tensor ({problem}); give a number for each path, and keep names "
            "in a list beside it"
        ) from problem


class Store:
    """A filesystem of this process, and how a path is said to it."""

    def __init__(self, where: str, options: dict[str, Any], full: bool) -> None:
        self.filesystem, root = _fsspec().core.url_to_fs(where, **options)
        self.asynchronous = bool(self.filesystem.async_impl)
        self._root = None if full else root.rstrip("/")

    def name(self, path: str) -> str:
        if self._root is None:
            return str(self.filesystem._strip_protocol(path))
        return f"{self._root}/{path}" if self._root else path

    def read(self, path: str) -> bytes:
        return bytes(self.filesystem.cat_file(self.name(path)))

    def read_later(self, path: str) -> Any:
        """Not `cat` with a list: that takes * ? [ for patterns, and fetches no path twice."""
        return self.filesystem._cat_file(self.name(path))


def _fsspec() -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError as problem:
        told = "Objects reads through fsspec, which is not installed: pip install fsspec"
        raise ImportError(told) from problem
