"""A cluster that is made up: its jobs go through the states they are given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from hotlap.trials.slurm import Full, Job, Unanswered

RUNNING = Job(state="RUNNING", reason="None", nodes="n1")


class Queue:
    def __init__(
        self,
        *states: Job,
        answer: Callable[[Path], None] | None = None,
        log: str = "",
        lost: int = 0,
        full: int = 0,
        silent: int = 0,
        deaf: int = 0,
    ) -> None:
        self.states, self.answer, self.log = states, answer, log
        self.lost, self.full, self.silent, self.deaf = lost, full, silent, deaf
        self.folders: dict[str, Path] = {}
        self.names: list[str] = []
        self.cancelled: list[list[str]] = []
        self.named: list[str] = []
        self.asked: dict[str, int] = {}
        self.seconds = 0.0

    def submit(self, words: Sequence[str], *, name: str, folder: Path, seconds: float) -> str:
        self.names.append(name)
        if self.full:
            self.full -= 1
            raise Full("SLURM did not take a job: AssocMaxSubmitJobLimit.")
        if self.deaf:
            self.deaf -= 1
            raise Unanswered("socket timed out")
        number = str(len(self.folders) + 1)
        self.folders[number] = folder
        if self.log:
            (folder / "slurm.log").write_text(self.log)
        self.seconds = seconds
        return number

    def jobs(self, numbers: Collection[str]) -> dict[str, Job]:
        if self.silent:
            self.silent -= 1
            raise Unanswered("no controller")
        return {number: self._next(number) for number in numbers}

    def _next(self, number: str) -> Job:
        if int(number) <= self.lost:
            return Job(state="NODE_FAIL")
        at = self.asked[number] = self.asked.get(number, -1) + 1
        if at < len(self.states):
            return self.states[at]
        if self.answer is not None:
            self.answer(self.folders[number])
        return Job(state="COMPLETED")

    def cancel(self, numbers: Collection[str]) -> None:
        if numbers:
            self.cancelled.append(sorted(numbers))

    def cancel_named(self, name: str) -> None:
        self.named.append(name)
