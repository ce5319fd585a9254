"""Phase times beside clocks put in by hand, from the recorded benchmark."""

from __future__ import annotations

import json
from typing import Any

from generating.pages import ROOT


def tables() -> str:
    files = sorted((ROOT / "bench" / "results").glob("phases-*.json"))
    if not files:
        return "No result is recorded yet."
    parts = []
    for file in files:
        found = json.loads(file.read_text())
        run = found["runs"][0]
        runs, steps = len(found["apart"]["step"]["by_hand_runs"]), found["together"]["steps"]
        parts.append(
            f"[{file.name}](../bench/results/{file.name}): {run['device_name'] or 'CPU'}, torch "
            f"{run['torch']}, {found['when'][:10]}; {runs} runs of each in turn, and {steps} steps "
            "under both clocks at once.\n"
        )
        parts.append("| phase | by hand | in other runs | same steps | within |")
        parts.append("|---|---|---|---|---|")
        for name, apart in found["apart"].items():
            parts.append(f"| {name} | {_row(apart, found['together'][name])} |")
        parts.append("")
    return "\n".join(parts).rstrip()


def _row(apart: dict[str, Any], together: dict[str, Any]) -> str:
    within = "yes" if apart["within"] and together["within"] else "**no**"
    spread = f" (by hand ±{100 * apart['by_hand_spread']:.1f} %)"
    return (
        f"{apart['by_hand_seconds'] * 1e3:.2f} ms | {_difference(apart)}{spread} "
        f"| {_difference(together)} | {within}"
    )


def _difference(row: dict[str, Any]) -> str:
    if row["judged_by"] == "step":
        return f"{100 * row['difference_of_step']:+.2f} % of the step"
    return f"{100 * row['difference']:+.1f} %"
