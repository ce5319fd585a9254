"""What happens to a sample that cannot be made: the epoch stops, or it is skipped and counted.

Never silently: a skipped sample is in `count`, its index in `indices`, and each process warns once.
A script that knows nothing of a wrapper around its data set catches its own exceptions: for it they
come out as they are.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import torch

from hotlap.data.counting import Counts

RAISE, SKIP, AS_IS = "raise", "skip", "as is"
MOST_INDICES = 16  # kept, for each process


class SampleError(RuntimeError):
    """A sample could not be made; the message says which and why."""


class Failures:
    """Counts what all worker processes skipped."""

    def __init__(self, on_error: str = RAISE) -> None:
        if on_error not in (RAISE, SKIP, AS_IS):
            known = f"{RAISE!r}, {SKIP!r} or {AS_IS!r}"
            raise ValueError(f"on_error is {on_error!r}; it can be {known}")
        self.on_error = on_error
        self._counts = Counts(1 + MOST_INDICES)
        self._last: str | None = None

    def met(self, index: Any, problem: Exception) -> None:
        """Raises, naming the index or as it is; or counts the sample as skipped."""
        if self.on_error != SKIP:
            self.raise_for(index, problem)
        self._last = f"sample {index}: {named(problem)}"
        row = self._counts.own()
        count = int(row[0])
        self._note(row, index)
        row[0] = count + 1
        if count == 0:
            warnings.warn(
                f"sample {index} is skipped, as all that fail will be: {named(problem)}",
                stacklevel=3,
            )

    def raise_for(self, index: Any, problem: Exception) -> NoReturn:
        """For one sample alone, which cannot be skipped."""
        if self.on_error == AS_IS:
            raise problem
        raise failure(index, problem) from problem

    def _note(self, row: torch.Tensor, index: Any) -> None:
        """One more than the index: 0 is nobody's place. A sample that fails again is there."""
        noted = [one for one in row[1:].tolist() if one]
        if isinstance(index, int) and len(noted) < MOST_INDICES and index + 1 not in noted:
            row[1 + len(noted)] = index + 1

    @property
    def count(self) -> int:
        return int(self._counts.table[:, 0].sum())

    @property
    def indices(self) -> list[int]:
        """Of the first skipped samples of each process, each once."""
        noted = set(self._counts.table[:, 1:].flatten().tolist())
        return sorted(one - 1 for one in noted if one)

    def nothing_left(self, indices: Any) -> SampleError:
        names = [str(one) for one in list(indices)[:8]]
        more = " and so on" if len(indices) > len(names) else ""
        return SampleError(
            f"every sample of a batch failed ({', '.join(names)}{more}), the last with {self._last}"
        )

    def __repr__(self) -> str:
        return f"Failures(on_error={self.on_error!r}, count={self.count}, indices={self.indices})"


def failure(index: Any, problem: BaseException) -> SampleError:
    """Named by its index; the traceback is its cause's, which torch writes out for a worker's."""
    if isinstance(problem, SampleError):
        return problem
    found = SampleError(f"sample {index}: {named(problem)}")
    found.__cause__ = problem
    return found


def named(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"
