"""Everything hotlap raises on purpose. Only `hotlap.cli.main` turns these into exit codes.

HotlapError
  ├ UsageError          2: the request itself is wrong (a missing script, an unwritable output)
  │   └ RecordError     2: a record cannot be read or written
  ├ CommandFailed       3: the training command failed by itself
  ├ NothingMeasured     4: the command ran, but there was no torch or no training step
  └ Interrupted       130: the user stopped it; what was measured is kept

Errors of a run carry what was measured until then, if there was anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotlap.answers import Answer
    from hotlap.records import Profile
    from hotlap.tunings import Tuning


class HotlapError(Exception):
    """An error with a sentence for the user: the fact, the value and the next move."""

    exit_code = 1


class UsageError(HotlapError):
    exit_code = 2


class RecordError(UsageError):
    pass


class CommandFailed(HotlapError):
    exit_code = 3

    def __init__(self, message: str, *, output: str = "", profile: Profile | None = None) -> None:
        super().__init__(message)
        self.output = output
        self.profile = profile


class NothingMeasured(HotlapError):
    exit_code = 4

    def __init__(self, message: str, *, output: str = "", answer: Answer | None = None) -> None:
        super().__init__(message)
        self.output = output
        self.answer = answer


class Interrupted(HotlapError):
    exit_code = 130

    def __init__(
        self,
        message: str,
        *,
        profile: Profile | None = None,
        tuning: Tuning | None = None,
        answer: Answer | None = None,
    ) -> None:
        super().__init__(message)
        self.profile = profile
        self.tuning = tuning
        self.answer = answer
