"""Where the cells of a study run: on this machine, or as jobs of a cluster."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from hotlap.errors import Interrupted, UsageError
from hotlap.studies import surroundings
from hotlap.studies.batch import SlurmRunner
from hotlap.studies.runner import LocalRunner, Runner
from hotlap.studies.surroundings import Surroundings
from hotlap.trials.folder import RunFolder
from hotlap.trials.jobs import Jobs
from hotlap.trials.runner import Progress
from hotlap.trials.scratch import remove_tree
from hotlap.trials.slurm import Slurm

Warn = Callable[[str], None]


class Place(Protocol):
    at_once: int
    shared: bool  # by all cells: what else goes on there disturbs some and not others

    def look(self, home: Path | None, progress: Progress) -> Surroundings:
        """What the machines are that cells run on."""

    @contextmanager
    def runner(self, run: RunFolder, warn: Warn) -> Iterator[tuple[Runner, Callable[[], None]]]:
        """What runs cells, and what has it take back all that run."""


class Here:
    at_once = 1
    shared = True

    def look(self, home: Path | None, progress: Progress) -> Surroundings:
        return surroundings.here()

    @contextmanager
    def runner(self, run: RunFolder, warn: Warn) -> Iterator[tuple[Runner, Callable[[], None]]]:
        yield LocalRunner(run.trial, before=run.trials, warn=warn), lambda: None


class Cluster:
    shared = False

    def __init__(self, slurm: Slurm, *, at_once: int = 1) -> None:
        self._slurm = slurm
        self.at_once = at_once

    def look(self, home: Path | None, progress: Progress) -> Surroundings:
        run = RunFolder.new("look", out=home)
        try:
            with Jobs(self._slurm, run.path) as jobs:
                return SlurmRunner(jobs, run.trial).look(run.path, progress)
        except KeyboardInterrupt as problem:
            raise Interrupted(
                "Interrupted while the first job looked at a node; nothing was measured."
            ) from problem
        finally:
            remove_tree(run.path)

    @contextmanager
    def runner(self, run: RunFolder, warn: Warn) -> Iterator[tuple[Runner, Callable[[], None]]]:
        with Jobs(self._slurm, run.path, warn=warn) as jobs:
            yield SlurmRunner(jobs, run.trial, before=run.trials), jobs.stop


def chosen(slurm: str | Sequence[str] | None, jobs: int | None) -> Place:
    if slurm is None:
        if jobs is not None:
            raise UsageError("--jobs is for jobs of a cluster: it goes with --slurm.")
        return Here()
    try:
        words = shlex.split(slurm) if isinstance(slurm, str) else list(slurm)
    except ValueError as problem:
        raise UsageError(f"--slurm {slurm} cannot be read: {problem}.") from problem
    return Cluster(Slurm(words), at_once=jobs or 1)
