"""The verbs as Python functions: what the command line calls, and what scripts may."""

from hotlap.api.profiling import profile
from hotlap.api.running import run
from hotlap.api.studying import study
from hotlap.api.tuning import tune

__all__ = ["profile", "run", "study", "tune"]
