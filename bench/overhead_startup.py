"""What starting hotlap burns, for bench/overhead.py."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from overhead_variants import SOURCE


def startup() -> dict[str, dict[str, Any]]:
    """CPU seconds (user and system) of the shortest things hotlap does, medians of five."""
    known = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(known)}
    script = shutil.which("hotlap", path=str(Path(sys.executable).parent))
    help_command = [script] if script else [sys.executable, "-m", "hotlap"]
    commands = {
        "hotlap --help": [*help_command, "--help"],
        "import hotlap": [sys.executable, "-c", "import hotlap"],
        "python alone": [sys.executable, "-c", ""],
    }
    found: dict[str, dict[str, Any]] = {}
    for name, command in commands.items():
        burned = []
        for _ in range(6):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            code = subprocess.run(command, env=environment, capture_output=True).returncode
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            burned.append(
                after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
                if code == 0
                else None
            )
        known = [seconds for seconds in burned[1:] if seconds is not None]  # the first fills caches
        found[name] = {"cpu_seconds": statistics.median(known) if len(known) == 5 else None}
    return found
