"""What watching costs, from the recorded benchmark."""

from __future__ import annotations

import json
from typing import Any

from generating.pages import ROOT


def table() -> str:
    files = sorted((ROOT / "bench" / "results").glob("overhead-*.json"))
    if not files:
        return "No result is recorded yet."
    parts = []
    for file in files:
        found = json.loads(file.read_text())
        machine = found["machine"]
        on = machine["gpu"] or f"{machine['cpu']}, {machine['cores']} cores"
        parts.append(
            f"[{file.name}](../bench/results/{file.name}): {on}, torch {machine['torch']}, "
            f"Python {machine['python']}, {machine['when'][:10]}.\n"
        )
        parts.append("| pass | by | of the step | 95 % interval | aim | within |")
        parts.append("|---|---|---|---|---|---|")
        ways = {"clocks around the hooks": "own", "a loop that computes nothing": "of_10_ms"}
        loops = {"whole steps of {:.1f} ms": "step"}
        if "arithmetic" in found:
            loops = {
                "whole steps of {:.1f} ms, all of it the host's": "step",
                "whole steps of {:.1f} ms, all of it the device's": "arithmetic",
            }
        for name in ("bare", "phases"):
            for way, key in ways.items():
                if key in found:
                    parts.append(f"| {name} | {way} | {_row(found[key][name])} |")
            for words, key in loops.items():
                whole = found[key]["wall"]
                way = words.format(whole["plain"]["median_step_us"] / 1e3)
                parts.append(f"| {name} | {way} | {_row(whole[name])} |")
        parts.append("")
    return "\n".join(parts).rstrip()


def _row(row: dict[str, Any]) -> str:
    low, high = row["share_interval"]
    return (
        f"{_percent(row['share'])} | {_percent(low)} to {_percent(high)} "
        f"| at most {row['limit'] * 100:g} % | {row['within'].lower()}"
    )


def _percent(value: float) -> str:
    return f"{value * 100:.2f} %"
