"""How often is something that does nothing called faster?

Tunes each of several scripts with a single candidate that does nothing at all, again and again,
and counts how often it ends up in the winner. At most one in twenty is what a 95 % interval
promises; hotlap accepts more strictly than it shows.

    python bench/false_positives.py --tunings 40 --json bench/results/false-positives-cpu.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS = (
    "planted_compute.py",
    "planted_tiny_ops.py",
    "planted_transform.py",
    "tunable_storage.py",
)
NOTHING = ROOT / "bench" / "does_nothing.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tunings", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["HOTLAP_OPTIMIZATIONS"] = str(NOTHING)
    import hotlap
    from hotlap.api import tune

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in range(options.tunings):
            script = ROOT / "tests" / "scripts" / SCRIPTS[number % len(SCRIPTS)]
            began = time.time()
            found = tune([str(script)], only=["does-nothing"], budget=120)
            # Looked at again, it has another row: the last one has all its runs.
            looks = [row for row in found.trials if row.recipe]
            trial = looks[-1]
            ratio = trial.speedup
            rows.append(
                {
                    "script": script.name,
                    "status": trial.status,
                    "ever_faster": any(row.status == "faster" for row in looks),
                    "won": found.winner is not None,
                    "ratio": ratio.ratio if ratio else None,
                    "low": ratio.low if ratio else None,
                    "high": ratio.high if ratio else None,
                    "covers_one": bool(ratio and ratio.low <= 1.0 <= ratio.high),
                    "runs": len(trial.runs),
                    "spread": found.noise.spread,
                    "disturbed": sum(run.disturbed for run in (*trial.runs, *found.baseline_runs)),
                    "seconds": time.time() - began,
                }
            )
            print(number + 1, rows[-1]["script"], rows[-1]["status"], rows[-1]["ratio"], flush=True)
    faster = sum(bool(row["ever_faster"]) for row in rows)
    won = sum(bool(row["won"]) for row in rows)
    covered = sum(bool(row["covers_one"]) for row in rows)
    print(f"{faster} of {len(rows)} called faster, {won} winners; {covered} intervals cover 1")
    result = {
        "hotlap": hotlap.__version__,
        "python": platform.python_version(),
        "torch": found.baseline.environment.get("torch"),
        "processor": found.baseline.environment.get("processor"),
        "cores": found.baseline.environment.get("cores"),
        "tunings": len(rows),
        "called_faster": faster,
        "winners": won,
        "intervals_that_cover_one": covered,
        "rows": rows,
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
