"""Whether hotlap's phase times agree with a hand-instrumented copy of the same loop.

Claimed: within 5 %, on CPU and on CUDA. Two comparisons, both with bench/phases_script.py:

Apart: the script is run in turn by itself with its own clocks (`--by-hand`) and, without them,
under hotlap.profile; runs alternate, so that a machine that changes its pace changes it for both.
Both sides reduce their steps alike: a phase is its share of all the steps' time, laid over the
median step. `by hand ±` is half the range of the hand-timed runs among themselves: what the machine
alone makes of the same number. A pair during which others used the machine is set aside, whatever
it says, and repeated; all pairs are in the JSON.

Together: the script keeps its own clocks while hotlap watches it, and the very same steps (those of
hotlap's phases windows) are compared. No run stands against another here, so what other people do
on the machine falls on both sides alike. The last step of each window is left out: hotlap closes
the window inside its `optimizer.step()`, which the clocks by hand take for the optimizer's time.

A phase of at least 5 % of the step must lie within 5 % of the time taken by hand; a smaller one,
and what belongs to no phase, within 1 % of the step.

    python bench/phases.py --device cpu --json bench/results/phases-cpu.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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
WARM_UP = 30  # steps a hand-timed run leaves out
NAMES = ("step", "input", "transfer", "forward", "backward", "optimizer", "other")
OTHERS_CORES = 0.15  # what others may burn during a run that counts, in cores
Times = dict[str, float]


def others_seconds() -> float:
    """CPU seconds burned on this machine by anything but this process and its children."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    own = os.times()
    burned = own.user + own.system + own.children_user + own.children_system
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK") - burned


def read_steps(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}}")]


def by_hand(device: str, steps: int, folder: Path) -> Times:
    file = folder / "by-hand.jsonl"
    command = [sys.executable, str(SCRIPT), "--device", device, "--steps", str(WARM_UP + steps)]
    subprocess.run([*command, "--by-hand", str(file)], check=True)
    kept = [step["phases"] for step in read_steps(file)[WARM_UP:]]
    whole = [sum(step.values()) for step in kept]
    times = {name: sum(step[name] for step in kept) / sum(whole) for name in kept[0]}
    median = statistics.median(whole)
    return {"step": median, **{name: share * median for name, share in times.items()}}


def watched(device: str, folder: Path) -> tuple[Times, dict[str, Any]]:
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    profile = hotlap.profile([str(SCRIPT), "--device", device], out=folder)
    after, seconds = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - started
    burned = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    known = {
        name: phase.seconds for name, phase in profile.phases.items() if phase.seconds is not None
    }
    about = {
        "median_seconds": profile.step.median_seconds,
        "watched_seconds": profile.step.watched_seconds,
        "steps": profile.step.count,
        "settled": profile.step.settled,
        "problems": list(profile.problems),
        "other_cores": profile.usage.other_cores,
        "parent_cpu_seconds": burned,
        "seconds": seconds,
        "torch": profile.environment.get("torch"),
        "device_name": profile.environment.get("device_name"),
    }
    return {"step": profile.step.median_seconds, **known}, about


def together(device: str, folder: Path) -> tuple[list[Times], list[Times]]:
    """The steps of hotlap's phases windows: as timed by hand, and as hotlap timed them."""
    file = folder.with_suffix(".jsonl")
    command = [str(SCRIPT), "--device", device, "--by-hand", str(file)]
    hotlap.profile(command, out=folder, in_place=True)  # what it writes is read here
    steps = read_steps(file)
    hands, watches = [], []
    for record in folder.rglob("records/*.json"):
        for window in json.loads(record.read_text())["windows"]:
            first, last = window["wall"]
            inside = [step["phases"] for step in steps if first <= step["started"] < last]
            rows = window["intervals"]
            if window["stage"] != "phases" or len(inside) != len(rows):
                continue
            for hand, row in zip(inside[:-1], rows[:-1], strict=True):
                if row["disturbed"] or row["kind"] != "step":
                    continue
                watch = dict(row["phases"])
                watch["forward"] += watch.pop("gap", 0.0)  # the loss
                hands.append({"step": sum(hand.values()), **hand})
                watches.append({"step": row["seconds"], **watch})
    if not hands:
        raise RuntimeError("hotlap's windows and the steps timed by hand could not be paired")
    return hands, watches


def compare(hands: list[Times], watches: list[Times]) -> dict[str, dict[str, Any]]:
    whole = statistics.mean(run["step"] for run in hands)
    found = {}
    for name in NAMES:
        if not all(name in run for run in (*hands, *watches)):
            continue
        hand, watch = [run[name] for run in hands], [run[name] for run in watches]
        mean, difference = statistics.mean(hand), statistics.mean(watch) - statistics.mean(hand)
        small = mean < SMALL * whole or name == "other"
        found[name] = {
            "by_hand_seconds": mean,
            "hotlap_seconds": statistics.mean(watch),
            "difference": difference / mean,
            "difference_of_step": difference / whole,
            "judged_by": "step" if small else "phase",
            "within": abs(difference) <= (SMALL_LIMIT * whole if small else LIMIT * mean),
        }
    return found


def show(found: dict[str, dict[str, Any]]) -> str:
    lines = [f"{'phase':10} {'by hand':>11} {'hotlap':>11} {'difference':>11} {'of the step':>12}"]
    for name, row in found.items():
        spread = f"   by hand ±{row['by_hand_spread']:.1%}" if "by_hand_spread" in row else ""
        lines.append(
            f"{name:10} {row['by_hand_seconds'] * 1e3:8.3f} ms "
            f"{row['hotlap_seconds'] * 1e3:8.3f} ms "
            + (f"{row['difference']:+11.1%} " if row["judged_by"] == "phase" else " " * 12)
            + f"{row['difference_of_step']:+12.2%}   "
            + ("yes" if row["within"] else "NO ")
            + spread
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="hotlap's phase times beside hand-made ones.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--runs", type=int, default=3, help="of each kind, taken in turn")
    parser.add_argument("--steps", type=int, default=120, help="counted in a hand-timed run")
    parser.add_argument("--json", type=Path, help="write everything here")
    options = parser.parse_args()
    device = options.device
    hands, watches, same_hands, same_watches, abouts = [], [], [], [], []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="hotlap-bench-") as name:
        folder = Path(name)
        for run in range(4 * options.runs):
            started, others = time.perf_counter(), others_seconds()
            hand = by_hand(device, options.steps, folder)
            watch, about = watched(device, folder / f"apart{run}")
            others = (others_seconds() - others) / (time.perf_counter() - started)
            about.update(by_hand=hand, hotlap=watch, others_cores=others)
            abouts.append(about)
            if others > OTHERS_CORES:
                continue
            hands.append(hand)
            watches.append(watch)
            same = together(device, folder / f"together{run}")
            same_hands += same[0]
            same_watches += same[1]
            if len(hands) == options.runs:
                break
    if not hands:
        sys.exit("Others used the machine during every run: nothing to compare.")
    apart = compare(hands, watches)
    for name, row in apart.items():
        values = row["by_hand_runs"] = [run[name] for run in hands]
        row["hotlap_runs"] = [run[name] for run in watches]
        row["by_hand_spread"] = (max(values) - min(values)) / 2 / row["by_hand_seconds"]
    same_steps = compare(same_hands, same_watches)
    torch, card = abouts[0]["torch"], abouts[0]["device_name"] or "cpu"
    print(f"{device} ({card}), torch {torch}, Python {platform.python_version()}")
    aside = len(abouts) - len(hands)
    print(f"\nApart: {len(hands)} runs of each, in turn ({aside} set aside)\n{show(apart)}")
    print(f"\nTogether: the same {len(same_hands)} steps under both clocks\n{show(same_steps)}")
    parent = statistics.mean(about["parent_cpu_seconds"] / about["seconds"] for about in abouts)
    print(f"\nhotlap's own process burned {parent:.1%} of one core beside the command")
    if options.json is not None:
        report = {
            "device": device,
            "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "python": platform.python_version(),
            "load": [load, os.getloadavg()[0]],
            "apart": apart,
            "together": {"steps": len(same_hands), **same_steps},
            "parent_cores": parent,
            "runs": abouts,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
