"""Jobs of a SLURM cluster: handing one in, asking how they are, taking one back.

The programs of the cluster are called with lists of words, never through a shell. A job runs
`job.sh`, which becomes what it is given: the signals of the cluster reach that, not a shell.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.errors import HotlapError, UsageError

SCRIPT = '#!/bin/sh\nexec "$@"\n'
ASK_SECONDS = 60.0  # a controller that has much to do may take long to answer
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "RESIZING")
_OURS = re.compile(r"--(wrap|array|wait|test-only|output|error|input|chdir)(=|$)|-(a|W|o|e|i|D)")
_UNKNOWN = "Invalid job id"

Call = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class Unanswered(HotlapError):
    """The cluster did not answer; it may do so a little later."""


@dataclass(frozen=True, kw_only=True)
class Job:
    state: str
    reason: str = ""
    nodes: str = ""

    @property
    def ended(self) -> bool:
        return self.state not in (*WAITING, *RUNNING)


GONE = Job(state="GONE")  # so long ended that the cluster has forgotten it


def call(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=ASK_SECONDS,
        check=False,
        start_new_session=True,  # Ctrl-C is ours: a job may be taken before its number is told
    )


def checked(options: Sequence[str]) -> list[str]:
    """Options for sbatch, without those that would take the job out of our hands."""
    for option in options:
        if _OURS.match(option):
            raise UsageError(
                f"--slurm has {option}, which hotlap sets itself or cannot work with. Leave it "
                "out; --partition, --gres, --time, --exclusive and the like are fine."
            )
    return list(options)


class Slurm:
    def __init__(self, options: Sequence[str] = (), *, call: Call = call) -> None:
        self._options = checked(options)
        self._call = call

    def submit(self, words: Sequence[str], *, name: str, folder: Path, seconds: float) -> str:
        """Its number. It runs in the folder and prints into `slurm.log` there."""
        script = folder / "job.sh"
        script.write_text(SCRIPT)
        pattern = str(folder).replace("%", "%%")
        usual = (f"--job-name={name}", f"--time={math.ceil(seconds / 60)}", "--no-requeue")
        ours = (f"--chdir={folder}", f"--output={pattern}/slurm.log", "--open-mode=append")
        done = self._ask(("sbatch", "--parsable", *usual, *self._options, *ours, script, *words))
        number = done.stdout.strip().split(";")[0]
        if done.returncode or not number.isdigit():
            raise UsageError(
                f"SLURM did not take a job: {_last(done.stderr) or _last(done.stdout) or 'no word'}"
                f". It was handed in with {' '.join(self._options) or 'no options of yours'}."
            )
        return number

    def jobs(self, numbers: Collection[str]) -> dict[str, Job]:
        """How they are; `GONE` where the cluster does not know them any more."""
        listed = ",".join(sorted(numbers))
        words = ("squeue", "--noheader", "--states=all", f"--jobs={listed}", "--format=%i|%T|%r|%N")
        done = self._ask(words)
        if done.returncode and _UNKNOWN not in done.stderr:
            raise Unanswered(_last(done.stderr) or f"squeue ended with {done.returncode}")
        found = dict.fromkeys(numbers, GONE)
        for line in done.stdout.splitlines():
            number, _, rest = line.strip().partition("|")
            state, reason, nodes = (*rest.split("|"), "", "", "")[:3]
            if number in found and state:
                found[number] = Job(state=state, reason=reason, nodes=nodes)
        return found

    def cancel(self, number: str) -> None:
        """Asks for its end. One that has ended is none to speak of."""
        self._ask(("scancel", "--quiet", number))

    def _ask(self, words: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        plain = [str(word) for word in words]
        try:
            return self._call(plain)
        except FileNotFoundError as problem:
            raise UsageError(
                f"--slurm needs {plain[0]}, which is not there. Start hotlap where jobs are "
                "handed in: on a login node of the cluster."
            ) from problem
        except (subprocess.TimeoutExpired, OSError) as problem:
            raise Unanswered(f"{plain[0]}: {problem}") from problem


def _last(text: str) -> str:
    """The last line that says something, without a full stop."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""
