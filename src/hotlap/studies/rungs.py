"""The rows of the ladder: which optimizations are tried alone, and which on top of which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hotlap import units
from hotlap.studies import study
from hotlap.studies.study import Setting

STOCK = "stock"
FACTOR = 4  # of the larger batch: 512 keeps enough updates in five epochs to learn from
MOST_WORKERS = 8
NEED_A_GPU = ("fp16", "tf32, cudnn-benchmark", "cudnn-benchmark", "pinned-memory", "uint8-transfer")
Recipe = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A row: its recipe, and the row it adds one optimization to."""

    name: str
    recipe: Recipe
    above: str = ""
    skip: str = ""


def listed(setting: Setting) -> list[Rung]:
    known = optimizations(setting)
    missing = {} if setting.device == "cuda" else dict.fromkeys(NEED_A_GPU, "it needs a GPU")
    alone, *ladders = shape(setting)
    made = [Rung(name=STOCK, recipe={})]
    for names in (*((name,) for name in alone), *ladders):
        made += _climbed(names, known, missing)
    return made


def optimizations(setting: Setting) -> dict[str, Recipe]:
    """What a row's name stands for."""
    mode = "reduce-overhead" if setting.device == "cuda" else "default"
    return {
        "bf16": {"precision-bf16": {}},
        "fp16": {"precision-fp16": {}},
        "channels-last": {"channels-last": {}},
        "tf32, cudnn-benchmark": {"tf32": {}, "cudnn-benchmark": {}},
        "cudnn-benchmark": {"cudnn-benchmark": {}},
        "fused-optimizer": {"fused-optimizer": {}},
        "compile": {"compile": {"mode": mode}},
        "pinned-memory": {"pinned-memory": {}, "non-blocking-copy": {}},
        "uint8-transfer": {"uint8-transfer": {}},
        _workers(setting): {"loader-workers": {"workers": _worker_count(setting)}},
        "device-input": {"device-input": {}},
        _larger(setting): {"batch-size": {"factor": FACTOR, "learning-rate": "linear"}},
    }


def shape(setting: Setting) -> tuple[tuple[str, ...], ...]:
    """Those that are tried alone, then ladders; the first rung of a ladder is alone, too."""
    larger = _larger(setting)
    if setting.quick:
        return ((), ("device-input",)) if setting.epochs else ((larger,), ("device-input", larger))
    computing = ("bf16", "channels-last", "fused-optimizer")
    return (
        (
            *computing,
            "fp16",
            "tf32, cudnn-benchmark",
            "compile",
            larger,
            "pinned-memory",
            "uint8-transfer",
        ),
        (_workers(setting), "pinned-memory", "uint8-transfer"),
        ("device-input", *computing, "cudnn-benchmark", "compile", larger),
    )


def _climbed(names: Sequence[str], known: dict[str, Recipe], missing: dict[str, str]) -> list[Rung]:
    made: list[Rung] = []
    recipe, above = Recipe(), STOCK
    for name in names:
        skip = missing.get(name, "")
        title = f"{study.AND}{name}" if made else name
        recipe = recipe if skip else {**recipe, **known[name]}
        made.append(Rung(name=title, recipe=recipe, above=above, skip=skip))
        above = above if skip else title
    return made


def _worker_count(setting: Setting) -> int:
    return max(1, min(MOST_WORKERS, setting.cores - 1))


def _workers(setting: Setting) -> str:
    return units.plural(_worker_count(setting), "worker")


def batch(setting: Setting) -> int:
    return setting.pick(16, 128)


def _larger(setting: Setting) -> str:
    return f"batch {FACTOR * batch(setting)}"
