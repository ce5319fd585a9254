"""Jobs of a SLURM cluster: handing one in, asking how they are, taking one back.

The programs of the cluster are called with lists of words, never through a shell. A job runs
`job.sh`, which becomes what it is given: the signals of the cluster reach that, not a shell.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.errors import HotlapError, UsageError

# It writes its log by itself: in the name of --output, % and backslashes mean something.
SCRIPT = '#!/bin/sh\ncd "$1" || exit 3\nshift\nexec "$@" >>slurm.log 2>&1\n'
ASK_SECONDS = 60.0  # a controller that has much to do may take long to answer
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
RUNNING = ("RUNNING", "COMPLETING")
# Ours, or such that a job would be out of our hands; sbatch takes beginnings of long names, too.
REFUSED = (
    *("array", "chdir", "clusters", "error", "input", "output", "requeue", "test-only"),
    *("wait", "wrap"),
)
_SHORT = "aDMeioW"
# Options without a value: a word behind them would be taken for the script.
BARE = (
    *("contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "no-requeue", "nice"),
    *("overcommit", "oversubscribe", "quiet", "reboot", "spread-job", "use-min-nodes", "verbose"),
)
_SHORT_BARE = "HkOsQv"
# The same said by the environment: what filters answers, and what takes jobs out of our hands.
VARIABLES = (
    *("SQUEUE_", "SCANCEL_", "SBATCH_ARRAY", "SBATCH_CLUSTERS", "SBATCH_REQUEUE", "SBATCH_WAIT"),
    *("SBATCH_TEST_ONLY", "SLURM_CLUSTERS"),
)
_UNKNOWN = "Invalid job id"
_FULL = re.compile(r"MaxSubmit|temporarily unable")
_UNHEARD = re.compile(r"timed out|Unable to contact|onnection (refused|reset)|Zero Bytes")

Call = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class Unanswered(HotlapError):
    """The cluster did not answer; it may do so a little later, and may have heard what was said."""


class Full(UsageError):
    """It takes no more jobs of this user for now."""


@dataclass(frozen=True, kw_only=True)
class Job:
    state: str
    reason: str = ""
    nodes: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED or self == GONE


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
        env={k: v for k, v in os.environ.items() if not k.startswith(VARIABLES)},
        start_new_session=True,  # Ctrl-C is ours: a job may be taken before its number is told
    )


def checked(options: Sequence[str]) -> list[str]:
    """Options for sbatch, without those that would take the job out of our hands."""
    before = ""
    for option in options:
        if _is_ours(option):
            raise UsageError(
                f"--slurm has {option}, which hotlap sets itself or cannot work with. Leave it "
                "out; --partition, --gres, --time, --exclusive and the like are fine."
            )
        if not option.startswith("-") and not _takes_a_value(before):
            raise UsageError(
                f"--slurm has {option!r}, which is no option of sbatch. Options begin with - or --."
            )
        before = option
    return list(options)


def _is_ours(option: str) -> bool:
    if option.startswith("--"):
        name = option[2:].partition("=")[0]
        return not name or any(refused.startswith(name) for refused in REFUSED)
    letters = option[1:].lstrip(_SHORT_BARE)
    return option.startswith("-") and letters[:1] in tuple(_SHORT)


def _takes_a_value(option: str) -> bool:
    """Whether the next word may be one."""
    if option.startswith("--"):
        return "=" not in option and not any(bare.startswith(option[2:]) for bare in BARE)
    return option.startswith("-") and len(option[1:].lstrip(_SHORT_BARE)) == 1


class Slurm:
    def __init__(self, options: Sequence[str] = (), *, call: Call = call) -> None:
        self._options = checked(options)
        self._call = call

    def submit(self, words: Sequence[str], *, name: str, folder: Path, seconds: float) -> str:
        """Its number. It runs in the folder and prints into `slurm.log` there."""
        script = folder / "job.sh"
        script.write_text(SCRIPT)
        usual = (f"--job-name={name}", f"--time={math.ceil(seconds / 60)}", "--no-requeue")
        ours = (f"--chdir={folder}", "--output=/dev/null", "--error=/dev/null")
        done = self._ask(
            ("sbatch", "--parsable", *usual, *self._options, *ours, script, folder, *words)
        )
        number = done.stdout.strip().split(";")[0]
        if not done.returncode and number.isdigit():
            return number
        if _UNHEARD.search(done.stderr):
            raise Unanswered(_last(done.stderr))
        said = _last(done.stderr) or _last(done.stdout) or "no word"
        sentence = (
            f"SLURM did not take a job: {said}. "
            f"It was handed in with {' '.join(self._options) or 'no options of yours'}."
        )
        raise (Full if _FULL.search(done.stderr) else UsageError)(sentence)

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

    def cancel(self, numbers: Collection[str]) -> None:
        """Asks for their end. Those that have ended are none to speak of."""
        if numbers:
            self._ask(("scancel", "--quiet", *sorted(numbers)))

    def cancel_named(self, name: str) -> None:
        """Of a job whose number was never heard."""
        self._ask(("scancel", "--quiet", f"--name={name}"))

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
    lines = [line for line in lines if not line.startswith("Try ")] or lines
    return lines[-1].rstrip(".") if lines else ""
