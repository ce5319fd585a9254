"""What being watched by hotlap costs a training step of 10 ms, beside torch.profiler and TraceML.

Claimed: the bare pass adds at most 0.5 % to a step of 10 ms, the phases pass at most 2 %, and
starting hotlap burns less than 0.5 s of CPU.

Runs of one script differ by far more than half a percent from each other, so nothing here compares
two runs. Within one process, blocks of a few steps of the same loop alternate between the variants
(a machine's speed wanders within a second): each round runs every variant once, in an order that is
drawn for one round and reversed for the next.
What a tool replaced in torch is taken out again after its block, so `plain` is torch as it came. A
variant's cost is the median over the rounds of (its block - the plain blocks of that round); the
95 % interval is a bootstrap over rounds. The process's CPU time is kept beside the clock: other
people's work on the machine moves it less; rounds in which others burned more than a little CPU are
set aside and repeated. `plain again` is the same as `plain`: its row shows
what the method makes of no difference at all.

The same hooks are also measured on a loop that computes next to nothing (one parameter), where a
few microseconds are a large part of the step: there the cost per step shows far above the noise.
The sampler of the phases pass wakes by the clock, so its cost is a share of the time instead (at
its highest here, where the interpreter never rests). Both are then set against 10 ms. These are
costs with warm caches: behind milliseconds of arithmetic the same hooks take longer, which only the
direct comparison shows. Each way is set against the limit by itself: `yes` where its whole interval
lies under it, `NO` where it lies over it, `open` where it lies across. TraceML's own thread works
in the 10 ms loop only: tiny steps would overflow its queue.

Both are differences, and a rented machine may scatter by more than what is to be shown. So the time
between entering and leaving each hook is also taken directly, in the 10 ms loop
(bench/overhead_hooks.py): it leaves out only what hotlap does to others' caches and turns.

With CUDA the 10 ms loop is one of many small layers: the host takes all of the 10 ms and adds every
microsecond of a hook to it, and its speed wanders by tens of percent on a rented machine. A third
loop takes its 10 ms on the device, as training that uses its GPU does: a few wide layers, and a
loss that is read in every step.

With CUDA the tiny loop's steps stand 1.5 ms apart, in which the host spins. torch's backward pass
runs in a thread of its own; where steps follow each other at once it is still awake, and whatever
makes a step a little longer lets it fall asleep and pays for waking it, which a step of 10 ms does
anyway.

Not counted, because it falls between the windows hotlap reports: opening and closing a window. Nor
what the parent process burns on another core (bench/phases.py reports it). torch.profiler's start
and stop are left out in the same way.

    python bench/overhead.py --device cpu --json bench/results/overhead-cpu.json
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from overhead_loops import (
    GROUP,
    LEAD,
    STEP_SECONDS,
    Loop,
    Took,
    arithmetic_loop,
    step_loop,
    tiny_loop,
)
from overhead_machine import busy_seconds, machine
from overhead_startup import startup
from overhead_variants import (
    AGAIN,
    BARE,
    CLOCKS,
    HOOKS,
    MET,
    PHASES,
    PLAIN,
    PROFILER,
    TRACEML,
    Hotlap,
    TraceML,
    Variant,
    variants,
)

LIMITS = {"bare": 0.005, "phases": 0.02}
STARTUP_LIMIT_SECONDS = 0.5
OTHERS_CORES = 0.15  # what others may burn during a round that counts, in cores
FEWEST_ROUNDS = 30


# Measuring -------------------------------------------------------------------------------------


def measure(
    loop: Loop, chosen: dict[str, Variant], *, rounds: int, every: dict[str, int], seed: int
) -> tuple[list[dict[str, Took]], int]:
    """One dict of variant -> seconds per step for each round; the first two only warm up.

    Rounds in which others used the machine are set aside (the second answer is how many) and
    repeated, up to as many again. Where there are hardly any others, all of them count.
    """
    shuffled = random.Random(seed)
    order = list(chosen)
    quiet: list[dict[str, Took]] = []
    noisy: list[dict[str, Took]] = []
    number = -2
    while number < 2 * rounds and len(quiet) < rounds:
        if number % 2 == 0:
            shuffled.shuffle(order)
        else:
            order.reverse()
        started, busy, own = time.perf_counter(), busy_seconds(), time.process_time()
        row = {}
        for name in order:
            # number // 2: a variant that sits out does so in both rounds of a pair.
            if number >= 0 and (number // 2) % every.get(name, 1):
                continue
            gc.collect(1)  # what the block before left behind
            row[name] = chosen[name](loop)
            if name == PROFILER:
                gc.collect()
        others = busy_seconds() - busy - (time.process_time() - own)
        if number >= 0:
            calm = others <= OTHERS_CORES * (time.perf_counter() - started)
            (quiet if calm else noisy).append(row)
        number += 1
    if len(quiet) < min(FEWEST_ROUNDS, rounds):
        return quiet + noisy, 0
    return quiet, len(noisy)


def interval(values: list[float], *, seed: int = 0, resamples: int = 2000) -> tuple[float, float]:
    """A bootstrap 95 % interval of the median."""
    drawn = random.Random(seed)
    medians = sorted(
        statistics.median(drawn.choices(values, k=len(values))) for _ in range(resamples)
    )
    return medians[round(0.025 * resamples)], medians[round(0.975 * resamples) - 1]


def against(rounds: list[dict[str, float]], name: str, *others: str) -> list[float]:
    """What the variant's block took more than the others' (their mean), round by round."""
    return [
        row[name] - statistics.mean(row[other] for other in others)
        for row in rounds
        if name in row and all(other in row for other in others)
    ]


def summarize(rounds: list[dict[str, float]], names: list[str]) -> dict[str, dict[str, Any]]:
    whole = statistics.median(row[PLAIN] for row in rounds)
    summary: dict[str, dict[str, Any]] = {}
    for name in names:
        steps = [row[name] for row in rounds if name in row]
        found: dict[str, Any] = {
            "median_step_us": statistics.median(steps) * 1e6,
            "blocks": len(steps),
        }
        if name != PLAIN:
            more = against(rounds, name, *((PLAIN,) if name == AGAIN else (PLAIN, AGAIN)))
            low, high = interval(more)
            found["added_us"] = statistics.median(more) * 1e6
            found["added_us_interval"] = [low * 1e6, high * 1e6]
            found["share"] = statistics.median(more) / whole
            found["share_interval"] = [low / whole, high / whole]
        summary[name] = found
    return summary


def by(clock: str, rounds: list[dict[str, Took]]) -> list[dict[str, float]]:
    index = CLOCKS.index(clock)
    return [{name: took[index] for name, took in row.items()} for row in rounds]


def own_time(device: str, rounds: int, seed: int) -> dict[str, dict[str, Any]]:
    """Microseconds hotlap's own code runs in a step of 10 ms, from a process of its own."""
    script = Path(__file__).with_name("overhead_hooks.py")
    words = ["--device", device, "--rounds", str(rounds), "--seed", str(seed)]
    told = subprocess.run([sys.executable, script, *words], stdout=subprocess.PIPE, check=True)
    found = json.loads(told.stdout.splitlines()[-1])
    summary: dict[str, dict[str, Any]] = {}
    for name, own in found["own_us"].items():
        shares = [value * 1e-6 / STEP_SECONDS for value in own]
        summary[name] = {
            "own_us": statistics.median(own),
            "share": statistics.median(shares),
            "share_interval": interval(shares),
            "step_us": found["step_us"],
            "blocks": found["rounds"],
            "steps": found["steps"],
        }
    return summary


def of_ten_milliseconds(rounds: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """The tiny loop's cost per step set against 10 ms; the sampler's as a share of the time."""
    found = {}
    for name, hooks in ((BARE, BARE), (PHASES, HOOKS), (TRACEML, TRACEML)):
        more = against(rounds, hooks, PLAIN, AGAIN)
        if not more:
            continue
        entry: dict[str, Any] = {"hooks_us": statistics.median(more) * 1e6}
        shares = [value / STEP_SECONDS for value in more]
        if name == PHASES:
            sampler = [row[PHASES] / row[HOOKS] - 1 for row in rounds]
            entry["sampler_share"] = statistics.median(sampler)
            entry["sampler_share_interval"] = interval(sampler)
            shares = [share + extra for share, extra in zip(shares, sampler, strict=True)]
        entry.update(share=statistics.median(shares), share_interval=interval(shares))
        found[name] = entry
    return found


# Telling ---------------------------------------------------------------------------------------


def table(rows: list[list[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def show(summary: dict[str, Any], absent: str | None) -> str:
    rows = [["variant", "step", "added", "95 %", "of the step", "95 %", "CPU time", "95 %", "n"]]
    for name, row in summary["wall"].items():
        cells = [name, f"{row['median_step_us']:,.1f} µs"]
        if "share" in row:
            low, high = row["added_us_interval"]
            cells += [f"{row['added_us']:+,.1f} µs", f"{low:+,.1f} … {high:+,.1f}"]
            for entry in (row, summary["cpu"][name]):
                low, high = entry["share_interval"]
                cells += [f"{entry['share']:+.2%}", f"{low * 100:+.2f} … {high * 100:+.2f}"]
        else:
            cells += [""] * 6
        rows.append([*cells, str(row["blocks"])])
    if absent is not None:
        rows.append([TRACEML, absent, *[""] * 7])
    return table(rows)


def against_limit(span: tuple[float, float] | list[float], limit: float) -> str:
    """Whether the whole interval lies under the limit, over it, or across it."""
    return "yes" if span[1] <= limit else "NO" if span[0] > limit else "open"


def judge(report: dict[str, Any]) -> list[str]:
    """Each way of measuring gets a verdict of its own; none is chosen over the others."""
    lines = []
    for name, limit in LIMITS.items():
        warm = report["of_10_ms"][name]
        parts = f"hooks {warm['hooks_us']:.1f} µs"
        if "sampler_share" in warm:
            parts += f", sampler {warm['sampler_share']:.2%} of the time"
        direct = report["own"][name]
        ways = {f"clocked ({direct['own_us']:.1f} µs)": direct, f"tiny loop ({parts})": warm}
        for clock in CLOCKS:
            ways[f"10 ms loop, {clock} clock"] = report["step"][clock][name]
        if "arithmetic" in report:
            ways["10 ms on the device, wall clock"] = report["arithmetic"]["wall"][name]
        for way, row in ways.items():
            low, high = row["share_interval"]
            row["limit"], row["within"] = limit, against_limit(row["share_interval"], limit)
            lines.append(
                f"{name}, {way}: {row['share']:.2%} ({low * 100:.2f} … {high * 100:.2f}); "
                f"at most {limit:.1%}: {row['within']}"
            )
    for name, row in report["startup"].items():
        seconds = row["cpu_seconds"]
        told = "did not run" if seconds is None else f"{seconds:.3f} s of CPU"
        if name != "python alone" and seconds is not None:
            row["within"] = seconds < STARTUP_LIMIT_SECONDS
            told += f"; under {STARTUP_LIMIT_SECONDS} s: " + ("yes" if row["within"] else "NO")
        lines.append(f"{name}: {told}")
    return lines


def written(report: dict[str, Any]) -> str:
    """Indented, but for the single rounds: a line for each number would be ten thousand."""
    told = json.dumps({**report, "rounds": None}, indent=1)
    return told.replace('"rounds": null', f'"rounds": {json.dumps(report["rounds"])}') + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="What hotlap's watching costs a training step.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=400, help="rounds of the 10 ms loop")
    parser.add_argument("--device-rounds", type=int, default=300, help="of 10 ms on the device")
    parser.add_argument("--tiny-rounds", type=int, default=150, help="rounds of the tiny loop")
    parser.add_argument("--steps", type=int, default=6, help="steps in a block of the 10 ms loop")
    parser.add_argument("--tiny-steps", type=int, default=500)
    parser.add_argument("--profiler-every", type=int, default=20, help="rounds for one of it")
    parser.add_argument("--traceml-every", type=int, default=1, help="rounds for one of it")
    parser.add_argument("--hook-rounds", type=int, default=60, help="rounds of clocked hooks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write everything here")
    options = parser.parse_args()
    if options.steps % GROUP or options.steps + LEAD < MET:
        parser.error(f"steps come in groups of {GROUP}, and at least {MET - LEAD} are needed")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    report: dict[str, Any] = {"device": options.device, "machine": machine(options.device)}
    report["startup"] = startup()
    report["own"] = own_time(options.device, options.hook_rounds, options.seed)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hotlap-bench-")))
        traceml, absent = None, None
        try:
            traceml = TraceML(folder)
            stack.callback(traceml.close)
        except ImportError:
            absent = "not installed"
        except Exception as problem:
            absent = f"did not start: {problem}"
        hotlap = Hotlap(folder)
        seconds = {}
        parts: dict[str, tuple[Callable[[str, int], Loop], int, int]] = {
            "tiny": (tiny_loop, options.tiny_steps, options.tiny_rounds),
            "step": (step_loop, options.steps, options.rounds),
        }
        if options.device == "cuda":
            parts["arithmetic"] = arithmetic_loop, options.steps, options.device_rounds
        for part, (make, steps, rounds) in parts.items():
            loop = hotlap.meet(functools.partial(make, options.device, steps))
            if traceml is not None:
                traceml.meet(loop)
            chosen = variants(options.device, hotlap, traceml, tiny=part == "tiny")
            every = {PROFILER: options.profiler_every, TRACEML: options.traceml_every}
            seconds[part], aside = measure(
                loop, chosen, rounds=rounds, every=every, seed=options.seed
            )
            report[part] = {
                clock: summarize(by(clock, seconds[part]), list(chosen)) for clock in CLOCKS
            }
            title = "one parameter" if part == "tiny" else f"{len(loop.model) // 2} Linear + ReLU"
            report[part]["rounds"], report[part]["set_aside"] = len(seconds[part]), aside
            print(f"\n{part} loop ({title}, {loop.steps} steps a block, {aside} rounds set aside)")
            print(show(report[part], absent), flush=True)
            del loop
            gc.collect()
        report["of_10_ms"] = of_ten_milliseconds(by("wall", seconds["tiny"]))
        report["absent"] = {TRACEML: absent} if absent else {}
        report["traceml_ticks"] = traceml.ticks if traceml is not None else None
        report["rounds"] = {  # microseconds a step, [wall, cpu]
            part: [
                {name: [round(value * 1e6, 2) for value in took] for name, took in row.items()}
                for row in rows
            ]
            for part, rows in seconds.items()
        }
    print()
    print("\n".join(judge(report)))
    told = {key: value for key, value in report["machine"].items() if value is not None}
    print(", ".join(f"{key} {value}" for key, value in told.items()))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(written(report))


if __name__ == "__main__":
    main()
