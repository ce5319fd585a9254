"""Every file name hotlap uses, once.

.hotlap/images/                images that studies have made ready
.hotlap/<run>/                 one call of a verb
  profile.json tuning.json study.json     the result
  journal.jsonl command.json   finished runs of a tuning, to go on from
  recipe.toml report.html      the winner, and the page to look at
  study.md                     a study's table, for a pull request
  alive-<token>                counted up while somebody waits for jobs
  <trial>/                     one run of the command
    settings.json              what the watched process reads
    output.log                 what the command printed
    records/<pid>.json         what each training process measured
    progress/<pid>.json        how far it is
    seen/<pid>.json            torch was imported there
    traces/<pid>.json          the steps that torch.profiler saw, where they were asked for
    figures.json epochs.jsonl  what a study's cell answered, what its workload logged
    request.json answer.json   what a job of a cluster is to do, and what came of it
    job.sh slurm.log           what the job runs, and what it printed
    writes-N/ scratch-N/       what the command wrote (overlay), gone unless kept
    diverted/                  saves that were led here
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hotlap.errors import UsageError
from hotlap.probes import writing
from hotlap.trials import scratch
from hotlap.trials.scratch import remove_tree

HOME = ".hotlap"
IMAGES = "images"
_STAMP = re.compile(r"(\d{8}-\d{6})(?:-(\d+))?$")


class TrialFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.output = path / "output.log"
        self.records = path / writing.RECORDS
        self.progress = path / writing.PROGRESS
        self.seen = path / writing.SEEN
        self.traces = path / writing.TRACES
        self.diverted = path / "diverted"
        self.figures = path / "figures.json"
        self.epochs = path / "epochs.jsonl"

    def create(self) -> None:
        for folder in (self.path, self.records, self.progress, self.seen):
            folder.mkdir(parents=True, exist_ok=True)

    def forget_writes(self, *, keep: bool, elsewhere: Path | None = None) -> None:
        """Removes the overlay's working folders, and what the command wrote unless it is kept.

        `elsewhere` is where the overlay had to put it when the trial's own disk would not do.
        """
        spare = elsewhere if elsewhere is not None and elsewhere != self.path else None
        for place in (self.path, spare):
            for found in place.glob("scratch-*") if place is not None else ():
                remove_tree(found)
        if not keep:
            for found in (*self.path.glob("writes-*"), self.diverted):
                remove_tree(found)
        elif spare is not None:
            for found in spare.glob("writes-*"):
                _bring(found, self.path / found.name)
        if spare is not None:
            scratch.remove(spare)


def _bring(source: Path, target: Path) -> None:
    """Copies a file or folder as far as its disk allows: overlayfs's marks of removal stay."""
    remove_tree(target)
    if not source.is_dir():
        shutil.copyfile(source, target)
        return
    for folder, _, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True, exist_ok=True)
        for name in files:
            path = Path(folder) / name
            if path.is_symlink() or path.is_file():
                with contextlib.suppress(OSError):
                    shutil.copy2(path, here / name, follow_symlinks=False)


class RunFolder:
    """One call of a verb: a new folder below .hotlap, and the trials in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.result = path / "profile.json"
        self.tuning = path / "tuning.json"
        self.study = path / "study.json"
        self.markdown = path / "study.md"
        self.journal = path / "journal.jsonl"
        self.recipe = path / "recipe.toml"
        self.report = path / "report.html"
        self._command = path / "command.json"
        self._locked: int | None = None

    def lock(self) -> None:
        """Held until `close`: two that write the same trials would mix them up."""
        try:
            self._locked = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"Another hotlap is at work in {self.path}. Wait until it has ended, or start "
                "anew without --resume."
            ) from None
        except OSError:
            return  # a file system without locks

    def close(self) -> None:
        """Whoever was interrupted in Python may want to go on in the same process."""
        if self._locked is not None:
            os.close(self._locked)
        self._locked = None

    @property
    def trials(self) -> int:
        return sum(entry.is_dir() for entry in self.path.iterdir())

    def remember(self, words: list[str], about: Mapping[str, str] | None = None) -> None:
        """The command, so that the run can be found again by it, and what it is besides."""
        self._command.write_text(json.dumps({"words": words, "about": dict(about or {})}))

    def _remembered(self) -> tuple[Any, dict[str, str]]:
        try:
            content = json.loads(self._command.read_text())
        except (OSError, ValueError):
            return None, {}
        if not isinstance(content, dict):
            return content, {}  # of an older hotlap: the words alone
        about = content.get("about")
        return content.get("words"), about if isinstance(about, dict) else {}

    @property
    def about(self) -> dict[str, str]:
        return self._remembered()[1]

    @classmethod
    def known(
        cls, verb: str, *, command: list[str], out: Path | None = None
    ) -> Iterator[RunFolder]:
        """The runs of this verb with this command, the newest first."""
        home = (out if out is not None else Path(HOME)).absolute()
        for path in sorted(home.glob(f"{verb}-*"), key=_number, reverse=True):
            run = cls(path)
            if run._remembered()[0] == command:
                yield run

    @classmethod
    def latest(cls, verb: str, *, command: list[str], out: Path | None = None) -> RunFolder | None:
        return next(cls.known(verb, command=command, out=out), None)

    @classmethod
    def new(
        cls, verb: str, *, out: Path | None = None, now: Callable[[], float] = time.time
    ) -> RunFolder:
        home = (out if out is not None else Path(HOME)).absolute()
        if home.exists() and not home.is_dir():
            raise UsageError(f"--out {home} is a file; name a folder for the runs.")
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now()))
        for number in range(1, 1000):
            path = home / (f"{verb}-{stamp}" + (f"-{number}" if number > 1 else ""))
            try:
                home.mkdir(parents=True, exist_ok=True)
                _ignore_in_git(home)
                path.mkdir()
            except FileExistsError:
                continue
            except OSError as problem:
                raise UsageError(
                    f"The results cannot be written to {home} ({problem.strerror}). "
                    "Name a folder it may write to with --out DIR."
                ) from problem
            return cls(path)
        raise UsageError(f"{home} already holds a thousand runs of this second.")

    def trial(self, name: str) -> TrialFolder:
        folder = TrialFolder(self.path / name)
        folder.create()
        return folder


def _number(path: Path) -> tuple[str, int]:
    """tune-20261115-070000 before tune-20261115-070000-2."""
    found = _STAMP.search(path.name)
    return (found.group(1), int(found.group(2) or 1)) if found else ("", 0)


def _ignore_in_git(home: Path) -> None:
    marker = home / ".gitignore"
    if not marker.exists():
        marker.write_text("*\n")
