"""The plot of every trial's speed-up with its interval: a row each, and a line at 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotlap import tunings, units
from hotlap.reports import rows, wording
from hotlap.reports.figures import Figure, text, title
from hotlap.reports.wording import finite
from hotlap.tunings import Speedup, Trial, Tuning

SYMBOLS = {
    tunings.FASTER: "circle",
    tunings.SMALLER: "diamond",
    tunings.SAME: "square-open",
    tunings.SLOWER: "triangle-down",
    tunings.CHANGED: "x",
    tunings.UNPROVEN: "circle-open",
}
ROW = 32  # pixels for one trial, its name beside its interval
TALL_ROW = 74  # its name and its result above the interval, where the page is narrow
HALF = 0.19  # of a tall row: what belongs to the interval
LETTER = 7.5  # pixels: the width of one, in wide fonts
LONGEST_NAME = 44
LONGEST_ON_NARROW = 38


def figure(tuning: Tuning) -> Figure | None:
    """Every ratio with its interval, top down in the order they were tried."""
    shown = [one for one in tuning.trials if _is_told(one.speedup)]
    if not shown:
        return None
    ends = [1.0]
    for trial in shown:
        ends += [one for one in _ends(trial) if one is not None]
    noise = [finite(tuning.noise.low) or 1.0, finite(tuning.noise.high) or 1.0]
    ends += noise
    least, most = min(ends), max(ends)
    pad = 0.06 * (most - least or 1.0)
    statuses = list(dict.fromkeys(trial.status for trial in shown))
    results = [_result(trial) for trial in shown]
    across = {
        "range": [least - pad, most + pad],
        "ticksuffix": "×",
        "showgrid": False,
        "ticks": "outside",
        "title": title("ratio"),
    }
    layout = {
        "height": 96 + ROW * len(shown),
        "margin": {"l": 8, "r": 20 + round(LETTER * max(map(len, results))), "t": 8, "b": 44},
        "xaxis": across,
        "yaxis": _names(shown),
        "annotations": [_beside(result, -at) for at, result in enumerate(results)],
        "shapes": _shapes(noise, 0.5 - len(shown), 0.5),
        "showlegend": len(statuses) > 1,
    }
    narrow = {
        "height": 96 + TALL_ROW * len(shown),
        "margin": {"l": 22, "r": 28, "t": 8, "b": 44},
        "yaxis": {"visible": False, "range": [0.6 - len(shown), 0.8], "fixedrange": True},
        "annotations": [
            one
            for at, trial in enumerate(shown)
            for one in _above(text(trial.name, LONGEST_ON_NARROW), results[at], -at)
        ],
        "shapes": [
            one for at in range(len(shown)) for one in _shapes(noise, -at - HALF, -at + HALF)
        ],
    }
    data = [_status(shown, status) for status in statuses]
    best = max(shown, key=lambda one: one.speedup.ratio if one.speedup else 0.0)
    words = (
        f"Speed-up of {units.plural(len(shown), 'trial')} with 95 % intervals. "
        f"The highest is {best.name}: {wording.speedup(best.speedup)}, {best.status}."
    )
    return Figure(data, layout, words, narrow)


def _is_told(found: Speedup | None) -> bool:
    """One that reaches from a tenth to a hundred times would leave the others no room."""
    return found is not None and finite(found.ratio) is not None and not found.is_vague


def _ends(trial: Trial) -> tuple[float | None, float | None, float | None]:
    found = trial.speedup
    assert found is not None
    return finite(found.low), finite(found.ratio), finite(found.high)


def _shapes(noise: Sequence[float], bottom: float, top: float) -> list[dict[str, Any]]:
    """What lies below the intervals from one height to another: the noise, and the line at 1."""
    high = {"y0": bottom, "y1": top, "layer": "below"}
    low, most = noise
    line = {**high, "type": "line", "x0": 1, "x1": 1, "line": {"color": "$ink", "width": 1.5}}
    if low >= most:
        return [line]
    area = {"x0": low, "x1": most, "line": {"width": 0}, "fillcolor": "$shade"}
    return [{**high, "type": "rect", **area}, line]


def _names(shown: Sequence[Trial]) -> dict[str, Any]:
    return {
        "range": [0.5 - len(shown), 0.5],
        "fixedrange": True,
        "showgrid": False,
        "tickmode": "array",
        "tickvals": [-at for at in range(len(shown))],
        "ticktext": [text(trial.name, LONGEST_NAME) for trial in shown],
        "tickfont": {"color": "$ink"},
        "ticklabelstandoff": 8,
    }


def _result(trial: Trial) -> str:
    ratio = wording.ratio(trial.speedup.ratio if trial.speedup else None)
    return text(f"{ratio} · {trial.status}", LONGEST_NAME)


def _beside(result: str, row: int) -> dict[str, Any]:
    return {**_label(result, row), "x": 1, "xshift": 10, "font": {"color": "$quiet"}}


def _above(name: str, result: str, row: int) -> list[dict[str, Any]]:
    return [
        {**_label(name, row), "x": 0, "yshift": 43},
        {**_label(result, row), "x": 0, "yshift": 25, "font": {"color": "$quiet"}},
    ]


def _label(words: str, row: int) -> dict[str, Any]:
    return {"text": words, "y": row, "xref": "paper", "xanchor": "left", "showarrow": False}


def _status(shown: Sequence[Trial], status: str) -> dict[str, Any]:
    """The trials of one status: one colour, one symbol, one entry of the legend."""
    mine = [(at, *_ends(trial), trial) for at, trial in enumerate(shown) if trial.status == status]
    kind = rows.STATUS.get(status, ("open", ""))[0]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text(status),
        "x": [ratio for _, _, ratio, _, _ in mine],
        "y": [-at for at, *_ in mine],
        "text": [_hover(trial) for *_, trial in mine],
        "hoverinfo": "text",
        "marker": {"size": 11, "symbol": SYMBOLS.get(status, "star"), "color": f"${kind}"},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, (high or ratio) - ratio) for _, _, ratio, high, _ in mine if ratio],
            "arrayminus": [
                max(0.0, ratio - (low or ratio)) for _, low, ratio, _, _ in mine if ratio
            ],
            "color": f"${kind}",
            "thickness": 2,
            "width": 5,
        },
    }


def _hover(trial: Trial) -> str:
    against = f"against {trial.against}"
    return "<br>".join(text(one) for one in (trial.name, wording.speedup(trial.speedup), against))
