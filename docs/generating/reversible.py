"""What reversible blocks cost and how far they drift, from the recorded benchmarks."""

from __future__ import annotations

import json
from typing import Any

from generating.pages import ROOT

ARITHMETIC = {"float32": "float32", "bfloat16": "bfloat16 autocast"}


def _recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "bench" / "results" / name).read_text())
    return found


def costs() -> str:
    rows = ["| blocks | | step | times plain | kept after the forward pass | peak |"]
    rows.append("|---|---|---|---|---|---|")
    for blocks, ways in _recorded("reversible-h200.json")["depths"].items():
        for way, cost in ways.items():
            rows.append(
                f"| {blocks} | {way} | {cost['step_seconds'] * 1e3:.0f} ms | {cost['ratio']:.2f} "
                f"| {cost['live_bytes'] / 1e6:,.0f} MB | {cost['peak_bytes'] / 1e6:,.0f} MB |"
            )
    return "\n".join(rows)


def drift() -> str:
    on_cpu, on_gpu = (
        _recorded(f"reversible-{name}.json")["drift"] for name in ("drift-cpu", "h200")
    )
    rows = ["| | input, CPU | gradients, CPU | input, H200 | gradients, H200 |"]
    rows.append("|---|---|---|---|---|")
    for kind, name in ARITHMETIC.items():
        for activation in on_cpu:
            cells = [
                f"{machine[activation][kind][what] * 100:.2g} %"
                for machine in (on_cpu, on_gpu)
                for what in ("reconstruction", "gradients")
            ]
            rows.append(f"| {name}, {activation} | {' | '.join(cells)} |")
    return "\n".join(rows)
