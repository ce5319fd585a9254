"""What the search finds and costs beside trying everything, from the recorded benchmark."""

from __future__ import annotations

import json
from pathlib import Path

from generating.pages import ROOT

HEAD = (
    "| script | best of all | search | of the best | recipes tried | runs |",
    "|---|---|---|---|---|---|",
)


def tables() -> str:
    files = sorted((ROOT / "bench" / "results").glob("search-*.json"))
    return "\n\n".join(map(_table, files)) or "No result is recorded yet."


def _table(file: Path) -> str:
    found = json.loads(file.read_text())
    intro = (
        f"[{file.name}](../bench/results/{file.name}): {found['machine']['cores']} cores, torch "
        f"{found['torch']}; the catalogue is {', '.join(found['catalogue'])}. `of the best` comes "
        f"from both recipes run in turns at the end, {found['turns']} times each."
    )
    if "note" in found:
        intro += f" {found['note']}"
    lines = []
    for row in found["rows"]:
        everything, search = row["exhaustive"], row["search"]
        cells = (
            Path(row["script"]).name,
            f"{everything['speedup']:.2f}x",
            f"{search['speedup']:.2f}x",
            f"{row['share_of_best']:.0%}",
            f"{search['recipes']} of {everything['recipes']}",
            f"{search['runs']} against {everything['runs']}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([intro, "", *HEAD, *lines])
