"""What hotlap says of public training scripts, unmodified: one line each.

The scripts are other people's and not part of this repository. Check them out, give them data, and
profile each with `hotlap profile --json NAME.json COMMAND`; this condenses the answers:

    python bench/public.py --json bench/results/public-h200.json cifar.json mnist.json ...
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import hotlap
from hotlap import units


def condense(name: str, profile: hotlap.Profile) -> dict[str, Any]:
    environment = profile.environment
    return {
        "name": name,
        "command": list(profile.command),
        "device": environment.get("device_name") or environment.get("processor"),
        "cores": environment.get("cores"),
        "torch": environment.get("torch"),
        "verdict": profile.verdict.bottleneck,
        "detail": profile.verdict.detail,
        "shares": {key: round(value, 3) for key, value in profile.verdict.shares.items()},
        "step_seconds": profile.step.median_seconds,
        "low_seconds": profile.step.low_seconds,
        "high_seconds": profile.step.high_seconds,
        "steps": profile.step.count,
        "settled": profile.step.settled,
        "samples_per_second": profile.step.samples_per_second,
        "phases": {key: phase.seconds for key, phase in profile.phases.items()},
        "peak_bytes": profile.memory.peak_bytes,
        "activations_bytes": profile.memory.activations_bytes,
        "gpu_busy": profile.usage.gpu_busy,
        "findings": [finding.rule for finding in profile.findings],
        "profiled_in_seconds": round(profile.ending.seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profiles", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [condense(path.stem, hotlap.load(path)) for path in options.profiles]
    for row in rows:
        print(
            f"{row['name']:14} {units.seconds(row['step_seconds']):>9}  {row['verdict']:9}"
            f" {row['shares'][row['verdict']]:4.0%}  {', '.join(row['findings'])}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
