"""Whether hotlap's phase times agree with a hand-instrumented copy of the same loop.

Claimed: within 5 %, on CPU and on CUDA. bench/phases_script.py is run in turn by itself with its
own clocks (`--by-hand`) and, without them, under hotlap.profile; the runs alternate so that a
machine that changes its pace changes it for both. Both sides reduce their steps alike: a phase is
its share of all the steps' time, laid over the median step. A phase of at least 5 % of the step
must lie within 5 % of the time taken by hand; a smaller one (and what belongs to no phase) within
1 % of the step. `by hand ±` is half the range of the hand-timed runs among themselves: what the
machine alone makes of the same number.

    python bench/phases.py --device cpu --json bench/results/phases-cpu.json
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
if str(SOURCE) not in sys.path:
    sys.path.insert(0, str(SOURCE))

import hotlap  # noqa: E402

SCRIPT = Path(__file__).resolve().with_name("phases_script.py")
LIMIT = 0.05
SMALL, SMALL_LIMIT = 0.05, 0.01  # of the step
Times = dict[str, float]


def by_hand(device: str, steps: int, folder: Path) -> tuple[Times, dict[str, Any]]:
    file = folder / "by-hand.json"
    command = [sys.executable, str(SCRIPT), "--device", device]
    subprocess.run([*command, "--steps", str(steps), "--by-hand", str(file)], check=True)
    raw = json.loads(file.read_text())
    scale = raw["median_seconds"] / raw["mean_seconds"]
    times = {name: seconds * scale for name, seconds in raw["phase_mean_seconds"].items()}
    return {"step": raw["median_seconds"], **times}, raw


def watched(device: str, folder: Path) -> tuple[Times, dict[str, Any]]:
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    profile = hotlap.profile([str(SCRIPT), "--device", device], out=folder)
    after, seconds = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - started
    times = {
        name: phase.seconds for name, phase in profile.phases.items() if phase.seconds is not None
    }
    burned = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    raw = {
        "phases": {name: phase.seconds for name, phase in profile.phases.items()},
        "median_seconds": profile.step.median_seconds,
        "watched_seconds": profile.step.watched_seconds,
        "steps": profile.step.count,
        "settled": profile.step.settled,
        "problems": profile.problems,
        "parent_cpu_seconds": burned,
        "seconds": seconds,
    }
    return {"step": profile.step.median_seconds, **times}, raw


def compare(hands: list[Times], watches: list[Times]) -> dict[str, dict[str, Any]]:
    whole = statistics.mean(run["step"] for run in hands)
    found = {}
    for name in ("step", "input", "transfer", "forward", "backward", "optimizer", "other"):
        if not all(name in run for run in (*hands, *watches)):
            continue
        hand = [run[name] for run in hands]
        watch = [run[name] for run in watches]
        mean, difference = statistics.mean(hand), statistics.mean(watch) - statistics.mean(hand)
        small = mean < SMALL * whole or name == "other"
        found[name] = {
            "by_hand_seconds": mean,
            "hotlap_seconds": statistics.mean(watch),
            "difference": difference / mean if mean > 0 else None,
            "difference_of_step": difference / whole,
            "by_hand_half_range": (max(hand) - min(hand)) / 2 / mean if mean > 0 else None,
            "judged_by": "step" if small else "phase",
            "within": abs(difference) <= (SMALL_LIMIT * whole if small else LIMIT * mean),
            "by_hand_runs": hand,
            "hotlap_runs": watch,
        }
    return found


def show(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        f"{'phase':10} {'by hand':>11} {'by hand ±':>10} {'hotlap':>11} {'difference':>11} "
        f"{'of the step':>12}"
    ]
    for name, row in found.items():
        lines.append(
            f"{name:10} {row['by_hand_seconds'] * 1e3:8.3f} ms {row['by_hand_half_range']:10.1%} "
            f"{row['hotlap_seconds'] * 1e3:8.3f} ms {row['difference']:+11.1%} "
            f"{row['difference_of_step']:+12.2%}"
            + ("" if row["within"] else "   TOO FAR")
            + ("   (judged by the step)" if row["judged_by"] == "step" else "")
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="hotlap's phase times beside hand-made ones.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--runs", type=int, default=3, help="of each kind, taken in turn")
    parser.add_argument("--steps", type=int, default=150, help="of a hand-timed run")
    parser.add_argument("--json", type=Path, help="write everything here")
    options = parser.parse_args()
    hands, watches, raws = [], [], []
    with tempfile.TemporaryDirectory(prefix="hotlap-bench-") as folder:
        for run in range(options.runs):
            hand, raw_hand = by_hand(options.device, options.steps, Path(folder))
            watch, raw_watch = watched(options.device, Path(folder) / f"run{run}")
            hands.append(hand)
            watches.append(watch)
            raws.append({"by_hand": raw_hand, "hotlap": raw_watch})
    found = compare(hands, watches)
    first = raws[0]["by_hand"]
    print(f"{options.device} ({first['device_name']}), torch {first['torch']}, {options.runs} runs")
    print(show(found))
    parent = statistics.mean(
        raw["hotlap"]["parent_cpu_seconds"] / raw["hotlap"]["seconds"] for raw in raws
    )
    print(f"hotlap's own process burned {parent:.1%} of one core beside the command")
    if options.json is not None:
        report = {
            "device": options.device,
            "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "phases": found,
            "parent_cores": parent,
            "runs": raws,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
