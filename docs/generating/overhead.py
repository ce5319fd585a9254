"""What watching costs, from the recorded benchmark."""

from __future__ import annotations

import json

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
        parts.append(
            "| pass | of a 10 ms step | 95 % interval | aim | within |\n|---|---|---|---|---|"
        )
        for name in ("bare", "phases"):
            row = found["of_10_ms"][name]
            low, high = row["share_interval"]
            parts.append(
                f"| {name} | {_percent(row['share'])} | {_percent(low)} to {_percent(high)} "
                f"| at most {row['limit'] * 100:g} % | {'yes' if row['within'] else 'no'} |"
            )
        parts.append("")
    return "\n".join(parts).rstrip()


def _percent(value: float) -> str:
    return f"{value * 100:.2f} %"
