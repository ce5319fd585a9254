"""What the parent tells the watched process, and what a profile may cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass

# The environment carries one variable: the trial folder. Everything else is in its settings file.
TRIAL_VARIABLE = "HOTLAP_TRIAL"
# HOTLAP_OVERLAY=0 keeps hotlap from mounting anything (for systems where mounting makes trouble).
OVERLAY_VARIABLE = "HOTLAP_OVERLAY"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a trial has measured enough, counted from its first training step."""

    steps: int = 2000
    seconds: float = 30.0
    timeout: float = 600.0  # without a training step, from the start or from the last one
    tolerance: float = 0.05  # three windows that differ by no more than this agree
    window_seconds: float = 0.5
    brief: bool = False  # only memory and kernels, for a command too short to reach them
    bare: bool = False  # only step times and peak memory: what a comparison needs
    guard_steps: int = 0  # the first so many steps are for the guard: their losses, not their times
    guard_seconds: float = 8.0  # unless they take longer than this
    guard_fill: float = 0.0  # seconds in which there may be more of them, as steps are short

    def as_dict(self) -> dict[str, float]:
        """What the watched process needs of it; it watches no time-outs."""
        content = asdict(self)
        del content["timeout"]
        return content
