"""How large a data set gets when it is cached, before any of it is: a few samples tell."""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.data import arena, shelf
from hotlap.data.failures import failure
from hotlap.data.packing import pack
from hotlap.data.randomness import restored

SAMPLED = 6
MORE, MORE_SECONDS = 200, 0.2  # samples that are only sized, as many as come in this time
LEAST_READ = 512  # bytes; less is what else the process did meanwhile


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What is expected of the whole set, and the budgets it meets."""

    samples: int
    sample_bytes: float  # packed, on average
    ram_sample_bytes: float  # the same where it is kept in memory
    error_bytes: float  # standard error of that average
    looked_at: int  # the samples it is known from
    read_bytes: float | None  # that one sample takes to read; None where nothing was read
    device_bytes: int
    ram_bytes: int
    disk_bytes: int

    @property
    def total_bytes(self) -> float:
        """A budget that all of it fits in, in memory or on disk: with the table."""
        return max(self._table(name) + self.samples * self._each(name) for name in ("ram", "disk"))

    @property
    def most_bytes(self) -> float:
        """On disk, with what the average may be off by."""
        return self._table("disk") + self.samples * (self.sample_bytes + 2 * self.error_bytes)

    def _table(self, tier: str) -> int:
        tables = {"ram": arena.table_bytes, "disk": shelf.table_bytes}
        return tables[tier](self.samples) if tier in tables else 0

    def _each(self, tier: str) -> float:
        return self.ram_sample_bytes if tier == "ram" else self.sample_bytes

    @property
    def ratio(self) -> float | None:
        """K: bytes in memory for a byte on disk."""
        return self.sample_bytes / self.read_bytes if self.read_bytes else None

    @property
    def shares(self) -> dict[str, float]:
        """Of the samples: in each tier, and from the source each time."""
        return self._shares(off_by=0.0)

    def _shares(self, off_by: float) -> dict[str, float]:
        """Where the average is so many bytes more than what was seen."""
        left, found = 1.0, {}
        for name in ("device", "ram", "disk"):
            room = max(0, getattr(self, f"{name}_bytes") - self._table(name))
            each = self._each(name)
            all_of_it = self.samples * max(each + off_by, 1.0 if each else 0.0)
            found[name] = min(left, room / all_of_it if all_of_it else 0.0)
            left -= found[name]
        return {**found, "source": left}

    def _told_shares(self) -> Iterator[str]:
        spread = 2 * self.error_bytes
        cases = [self._shares(off_by) for off_by in (-spread, 0.0, spread)]
        for name in cases[0]:
            least, most = (f"{pick(case[name] for case in cases):.0%}" for pick in (min, max))
            where = "come from the source" if name == "source" else f"fit in {name}"
            if most != "0%":
                yield f"{most if least == most else f'{least} to {most}'} {where}"

    @property
    def sentence(self) -> str:
        if not self.samples:
            return "no samples"
        ratio = f", {self.ratio:.2g} times what is read" if self.ratio else ""
        spread = f" ± {size(2 * self.error_bytes)}" if self.error_bytes else ""
        told = ", ".join(self._told_shares())
        noun = "sample" if self.samples == 1 else "samples"
        by = f" (by {self.looked_at} of them)" if self.looked_at < self.samples else ""
        return (
            f"{self.samples:,} {noun} of {size(self.sample_bytes)}{spread}{by} make "
            f"{size(self.total_bytes)}{ratio}: {told}"
        )


def size(number: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:.0f} B"


def spread_out(samples: int, most: int = SAMPLED) -> list[int]:
    """Indices from all over the set, the first and the last among them."""
    count = min(samples, most)
    return sorted({round(at * (samples - 1) / max(1, count - 1)) for at in range(count)})


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Samples that could be read, and how many bytes were read for one."""

    indices: list[int]
    read_bytes: float | None


def probe(dataset: Any, samples: int) -> Probes:
    """Looks at samples from all over the set; a few may fail, they are not judged here."""
    indices, reads = [], []
    first: Exception | None = None
    for at in spread_out(samples):
        try:
            read = _read_for(dataset, at)
        except Exception as problem:
            first = first or failure(at, problem)
            continue
        indices.append(at)
        if read is not None:
            reads.append(read)
    if first is not None and not indices:
        raise first
    enough = bool(reads) and statistics.median(reads) >= LEAST_READ
    return Probes(indices=indices, read_bytes=statistics.mean(reads) if enough else None)


def _read_for(dataset: Any, at: int) -> int | None:
    """Bytes that are read to make a sample."""
    with restored():
        seen = [read_so_far(), read_so_far()]  # looking is reading, too
        dataset[at]
        seen.append(read_so_far())
    before, between, after = seen
    if before is None or between is None or after is None:
        return None
    return max(0, after - between - (between - before))


def more_sizes(
    dataset: Any, samples: int, *, clock: Callable[[], float] = time.perf_counter
) -> list[int]:
    """Packed sizes of samples picked at random, as many as are cheap to make.

    Sizes may differ a thousandfold in a few samples, which a handful does not show. Picked, not
    spread out: every tenth sample may well be of another kind.
    """
    sizes: list[int] = []
    until = clock() + MORE_SECONDS
    with restored():
        for at in random.Random(samples).sample(range(samples), min(samples, MORE)):
            if clock() >= until:
                break
            with contextlib.suppress(Exception):  # it is told when it is asked for
                sizes.append(len(pack(dataset[at])))
    return sizes


def fit(sizes: Sequence[int], probes: Probes, *, samples: int, budgets: dict[str, int]) -> Fit:
    mean = sum(sizes) / len(sizes) if sizes else 0.0
    variance = sum((one - mean) ** 2 for one in sizes) / max(1, len(sizes) - 1)
    return Fit(
        samples=samples,
        sample_bytes=mean,
        ram_sample_bytes=sum(map(arena.aligned, sizes)) / len(sizes) if sizes else 0.0,
        error_bytes=math.sqrt(variance / len(sizes)) if 0 < len(sizes) < samples else 0.0,
        looked_at=min(samples, len(sizes)),
        read_bytes=probes.read_bytes,
        device_bytes=budgets["device"],
        ram_bytes=budgets["ram"],
        disk_bytes=budgets["disk"],
    )


def read_so_far(source: Path = Path("/proc/self/io")) -> int | None:
    """Bytes this process has read from files, from the page cache or not."""
    try:
        line = next(line for line in source.read_text().splitlines() if line.startswith("rchar"))
        return int(line.split()[1])
    except (OSError, ValueError, StopIteration):
        return None
