"""Does the search find what trying everything finds, and at what cost?

For each of five scripts: every combination of the same catalogue is run once, the best three of
them twice more, and the best of those is what there was to find. Then the search runs with the
same catalogue. Reported: the share of the best speed-up it found (both recipes run in turns once
more, for what was measured before has drifted), the recipes it tried against all there are, and its
runs, among them those that prove what it says, against one run of each.

    python bench/search.py --json bench/results/search-cpu.json

Runs that others on the machine disturbed are made again and told apart. `--again` takes what trying
everything gave from an earlier result and only searches anew; with `--only`, its other rows stay.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hotlap import stats
from hotlap.api import tune
from hotlap.api.profiling import conclude
from hotlap.api.tuning import FULL, TIMED
from hotlap.optimizations import known, named
from hotlap.recipes import Recipe
from hotlap.search.comparing import cost
from hotlap.search.planning import Choice, plan
from hotlap.trials.folder import RunFolder
from hotlap.trials.measuring import LocalMachine, Where
from hotlap.tunings import Run

ROOT = Path(__file__).parents[1]
CATALOGUE = (
    *("loader-workers", "persistent-workers", "threads", "fused-optimizer", "foreach-optimizer"),
    *("precision-bf16", "channels-last"),
)
SCRIPTS = (
    "tests/scripts/tunable_storage.py",
    "tests/scripts/planted_transform.py",
    "tests/scripts/planted_tiny_ops.py",
    "tests/scripts/planted_optimizer.py",
    "examples/slow.py",
)
QUICK = replace(TIMED, guard_steps=0, guard_fill=0.0, seconds=2.5)  # it need not be guarded
REPEATED = 3  # the best recipes of the first look
LONGEST = 120.0
TURNS = 10  # of the recipe that was found and the best one


def combinations(baseline: Any) -> list[Recipe]:
    """Every recipe of the catalogue that makes sense."""
    choice = Choice(only=CATALOGUE)
    offered: dict[str, list[dict[str, Any]]] = {}
    for candidate in plan(baseline, baseline.verdict, choice).candidates:
        offered.setdefault(candidate.name, []).append(candidate.settings)
    if "loader-workers" in offered:
        offered["persistent-workers"] = [{}]
    found: dict[str, Recipe] = {}
    names = sorted(offered)
    for chosen in itertools.product(*([None, *offered[name]] for name in names)):
        picked = {n: s for n, s in zip(names, chosen, strict=True) if s is not None}
        if any(other in picked for n in picked for other in named(n).CONFLICTS):
            continue
        if "persistent-workers" in picked and not picked.get("loader-workers", {}).get("workers"):
            continue
        recipe = Recipe(picked)
        found[recipe.key] = recipe
    return list(found.values())


def exhaustive(script: Path) -> dict[str, Any]:
    where = Where(words=[str(script)], working=Path.cwd())
    run = RunFolder.new("exhaustive")
    machine = LocalMachine(where, run.trial, timed=QUICK, full=FULL, timeout=LONGEST)
    _, measured = machine.full(Recipe(), limit=LONGEST)
    assert measured.record is not None
    recipes = combinations(conclude(measured.record, [str(script)], run))
    print(f"{script.name}: {len(recipes)} recipes", flush=True)
    runs: dict[str, list[Run]] = {}
    for recipe in recipes:
        runs[recipe.key] = [machine.timed(recipe, limit=LONGEST)[0]]
    good = [recipe for recipe in recipes if cost(runs[recipe.key][0])]
    good.sort(key=lambda recipe: cost(runs[recipe.key][0]) or 1e9)
    again = [*good[:REPEATED], Recipe()]
    for _ in range(2):
        for recipe in again:
            runs[recipe.key].append(machine.timed(recipe, limit=LONGEST)[0])

    def middle(recipe: Recipe) -> float:
        return stats.median([value for value in map(cost, runs[recipe.key]) if value])

    best = min(good[:REPEATED], key=middle)
    return {
        "recipes": len(recipes),
        "runs": sum(map(len, runs.values())),
        "best": dict(best.changes),
        "best_seconds": middle(best),
        "baseline_seconds": middle(Recipe()),
        "speedup": middle(Recipe()) / middle(best),
    }


def searched(script: Path, best: dict[str, Any]) -> dict[str, Any]:
    began = time.time()
    others = tuple(one.NAME for one in known() if one.NAME not in CATALOGUE)
    found = tune([str(script)], skip=others, budget=600)  # `only` would try what promises nothing
    tried = {Recipe(row.recipe).key for row in found.trials if row.runs} | {Recipe().key}
    rows = [row.runs for row in found.trials] + [found.baseline_runs]
    rows += [found.winner.runs] if found.winner else []
    runs = {run.folder: run.disturbed for one in rows for run in one}
    recipe = Recipe(found.winner.recipe if found.winner else {})
    return {
        "recipes": len(tried),
        "runs": sum(not disturbed for disturbed in runs.values()),
        "disturbed": sum(runs.values()),
        "seconds": time.time() - began,
        "recipe": dict(recipe.changes),
        "speedup": found.winner.speedup.ratio if found.winner else 1.0,
        "same_recipe": dict(recipe.changes) == best,
    }


def face_to_face(script: Path, first: Recipe, second: Recipe, times: int = TURNS) -> float:
    """The search's speed over the exhaustive best's, in turns: earlier figures have drifted."""
    where = Where(words=[str(script)], working=Path.cwd())
    run = RunFolder.new("face")
    machine = LocalMachine(where, run.trial, timed=TIMED, full=FULL, timeout=LONGEST)
    seen: dict[str, list[float]] = {first.key: [], second.key: []}
    for number in range(times):
        for recipe in (first, second) if number % 2 else (second, first):
            value = cost(machine.timed(recipe, limit=LONGEST)[0])
            if value:
                seen[recipe.key].append(value)
    return stats.median(seen[second.key]) / stats.median(seen[first.key])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--again", type=Path, help="an earlier result")
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    before = json.loads(options.again.read_text())["rows"] if options.again else []
    earlier = {row["script"]: row["exhaustive"] for row in before}
    if options.only:
        rows = {row["script"]: row for row in before}
    target = options.json.absolute() if options.json else None
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in SCRIPTS:
            if options.only and not any(word in name for word in options.only):
                continue
            script = ROOT / name
            everything = earlier.get(name) or exhaustive(script)
            search = searched(script, everything["best"])
            share = face_to_face(script, Recipe(search["recipe"]), Recipe(everything["best"]))
            row = {
                "script": name,
                "exhaustive": everything,
                "search": search,
                "share_of_best": 1.0 if search["same_recipe"] else min(1.0, share),
                "share_of_recipes": search["recipes"] / everything["recipes"],
                "share_of_runs": search["runs"] / everything["runs"],
            }
            rows[name] = row
            print(
                f"{name}: best {everything['speedup']:.2f}x of {everything['recipes']} recipes; "
                f"search {search['speedup']:.2f}x, {row['share_of_best']:.0%} of the best with "
                f"{search['recipes']} recipes of {everything['recipes']}, "
                f"{search['runs']} runs against {everything['runs']}",
                flush=True,
            )
            print("  best", everything["best"], "\n  found", search["recipe"], flush=True)
            if target:
                result = {
                    "python": platform.python_version(),
                    "torch": str(torch.__version__),
                    "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]},
                    "catalogue": CATALOGUE,
                    "turns": TURNS,
                    "rows": [rows[script] for script in SCRIPTS if script in rows],
                }
                target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
