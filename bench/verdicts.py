"""Planted bottlenecks: is the verdict right every time?

Profiles every tests/scripts/planted_*.py that makes sense on this machine, several times each, and
compares the verdict with what the script says was planted in it.

    python bench/verdicts.py --times 3 --json bench/results/verdicts-cpu.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import tempfile
from pathlib import Path

import hotlap

SCRIPTS = Path(__file__).parents[1] / "tests" / "scripts"


def expected(script: Path) -> dict[str, str]:
    found = re.search(r"^# expect: (.*)$", script.read_text(), re.MULTILINE)
    return dict(word.split("=", 1) for word in found.group(1).split()) if found else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--cuda", action="store_true", help="also those planted for a GPU")
    parser.add_argument("--only-cuda", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    machine: dict[str, object] = {"python": platform.python_version()}
    os.chdir(SCRIPTS)
    for script in sorted(SCRIPTS.glob("planted_*.py")):
        expect = expected(script)
        on_cuda = expect.get("device") == "cuda"
        if on_cuda and not (options.cuda or options.only_cuda):
            continue
        if options.only_cuda and not on_cuda:
            continue
        for _ in range(options.times):
            with tempfile.TemporaryDirectory() as out:
                profile = hotlap.profile([script.name], seconds=options.seconds, out=out)
            verdict = profile.verdict
            right = verdict.bottleneck == expect["bottleneck"] and (
                "detail" not in expect or verdict.detail == expect["detail"]
            )
            names = ("torch", "device_name", "processor", "cores")
            machine.update({name: profile.environment.get(name) for name in names})
            rows.append(
                {
                    "script": script.stem,
                    "planted": expect["bottleneck"],
                    "verdict": verdict.bottleneck,
                    "detail": verdict.detail,
                    "share": round(verdict.share, 3),
                    "step_seconds": profile.step.median_seconds,
                    "right": right,
                }
            )
            print(
                f"{script.stem:28} planted {expect['bottleneck']:10} found {verdict.bottleneck:10}"
                f" {verdict.share:5.0%}  {'right' if right else 'WRONG'}",
                flush=True,
            )
    right = sum(bool(row["right"]) for row in rows)
    print(f"{right} of {len(rows)} right")
    if options.json:
        result = {"machine": machine, "right": right, "of": len(rows), "runs": rows}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
