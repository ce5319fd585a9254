"""How often something that does nothing is called faster, from the recorded benchmark."""

from __future__ import annotations

import json

from generating.pages import ROOT


def sentences() -> str:
    files = sorted((ROOT / "bench" / "results").glob("false-positives-*.json"))
    parts = []
    for file in files:
        found = json.loads(file.read_text())
        scripts = len({row["script"] for row in found["rows"]})
        parts.append(
            f"[{file.name}](../bench/results/{file.name}): {found['processor']}, "
            f"{found['cores']:g} cores, torch {found['torch']}. Of {found['tunings']} tunings of "
            f"{scripts} scripts with a single candidate that does nothing, "
            f"{found['called_faster']} called it faster, and {found['winners']} had a winner. "
            f"{found['intervals_that_cover_one']} of the {found['tunings']} intervals cover 1."
        )
    return "\n\n".join(parts) or "No result is recorded yet."
