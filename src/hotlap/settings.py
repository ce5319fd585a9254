"""What the parent tells the watched process, and what a profile may cost."""

from __future__ import annotations

from dataclasses import dataclass

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

    def as_dict(self) -> dict[str, float]:
        return {
            "steps": self.steps,
            "seconds": self.seconds,
            "tolerance": self.tolerance,
            "window_seconds": self.window_seconds,
            "brief": self.brief,
        }
