"""What happens to a sample that cannot be made: the epoch stops, or it is skipped and counted.

Never silently: a skipped sample is in `count`, its index in `indices`, and each process warns once.
"""

from __future__ import annotations

import traceback
import warnings
from typing import Any

from hotlap.data.counting import own, rows

RAISE, SKIP = "raise", "skip"
MOST_INDICES = 16  # kept, for each process


class SampleError(RuntimeError):
    """A sample could not be made; the message says which and why."""


class Failures:
    """Counts what all worker processes skipped."""

    def __init__(self, on_error: str = RAISE) -> None:
        if on_error not in (RAISE, SKIP):
            raise ValueError(f"on_error is {on_error!r}; it can be {RAISE!r} or {SKIP!r}")
        self.on_error = on_error
        self._rows = rows(1 + MOST_INDICES)

    def met(self, index: Any, problem: Exception) -> None:
        """Raises, naming the index; or counts the sample as skipped."""
        if self.on_error == RAISE:
            raise failure(index, problem) from problem
        row = own(self._rows)
        count = int(row[0])
        if isinstance(index, int) and count < MOST_INDICES:
            row[1 + count] = index
        row[0] = count + 1
        if count == 0:
            warnings.warn(
                f"sample {index} is skipped, as all that fail will be: {named(problem)}",
                stacklevel=3,
            )

    @property
    def count(self) -> int:
        return int(self._rows[:, 0].sum())

    @property
    def indices(self) -> list[int]:
        """Of the first skipped samples of each process."""
        rows = self._rows.tolist()
        return sorted(index for row in rows for index in row[1 : 1 + min(row[0], MOST_INDICES)])

    def nothing_left(self, indices: Any) -> SampleError:
        return SampleError(f"every sample of a batch failed: {list(indices)[:8]} and so on")


def failure(index: Any, problem: BaseException) -> SampleError:
    """An error that survives the way from a worker process: one string holds it all."""
    if isinstance(problem, SampleError):
        return problem
    told = "".join(traceback.format_exception(problem)).rstrip()
    return SampleError(f"sample {index}: {named(problem)}\n{told}")


def named(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"
