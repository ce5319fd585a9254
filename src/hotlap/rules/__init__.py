"""What follows from a record: the verdict, and findings by rules of one file each.

A rule is a module with a NAME, a docstring that is its page in the docs, and
`check(record, verdict)`, which answers a finding or None. It must not speak without evidence:
advice given on every run is noise.
"""

from __future__ import annotations

from typing import Protocol

from hotlap.records import Finding, Record, Verdict, as_told
from hotlap.rules import (
    busy_machine,
    counted_at_backward,
    debugging_left_on,
    discarded_writes,
    heavy_optimizer,
    host_waits,
    idle_wrapper,
    left_running,
    loader_restart,
    many_small_operations,
    oversubscribed_cores,
    slow_copies,
    slow_exchange,
    slow_input,
    slow_model_code,
    slow_rank,
    slow_user_code,
    small_shared_memory,
    stalled,
    too_short,
    unsettled_timing,
    written_in_place,
)


class Rule(Protocol):
    NAME: str

    def check(self, record: Record, verdict: Verdict) -> Finding | None: ...


RULES: tuple[Rule, ...] = (  # what stands in the way of the numbers, then the costly, then notes
    stalled,
    too_short,
    busy_machine,
    unsettled_timing,
    debugging_left_on,
    slow_input,
    loader_restart,
    small_shared_memory,
    oversubscribed_cores,
    slow_copies,
    host_waits,
    many_small_operations,
    heavy_optimizer,
    slow_model_code,
    slow_user_code,
    slow_rank,
    slow_exchange,
    idle_wrapper,
    counted_at_backward,
    written_in_place,
    discarded_writes,
    left_running,
)

# What any figure has to be read with: told beside the figures, not only among the findings.
WITH_ANY_FIGURE = ("busy-machine", "unsettled-timing", "too-short", "debugging-left-on")


def find(record: Record, verdict: Verdict) -> tuple[Finding, ...]:
    found = (rule.check(as_told(record), verdict) for rule in RULES)
    return tuple(finding for finding in found if finding is not None)
