"""The plot of every trial's speed-up with its interval: a row each, and a line at 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotlap import tunings, units
from hotlap.reports import rows, wording
from hotlap.reports.figures import Figure, text, title
from hotlap.reports.wording import finite
from hotlap.tunings import Trial, Tuning

SYMBOLS = {
    tunings.FASTER: "circle",
    tunings.SMALLER: "diamond",
    tunings.SAME: "square-open",
    tunings.SLOWER: "triangle-down",
    tunings.CHANGED: "x",
    tunings.UNPROVEN: "circle-open",
}
ROW = 50  # pixels for one trial: its name above, its interval below
LONGEST_NAME = 44


def figure(tuning: Tuning) -> Figure | None:
    """Every ratio with its interval, top down in the order they were tried."""
    shown = [one for one in tuning.trials if one.speedup and finite(one.speedup.ratio) is not None]
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
    names: list[dict[str, Any]] = []
    for at, trial in enumerate(shown):
        names += _labels(trial, -at)
    shapes: list[dict[str, Any]] = []
    if noise[0] < noise[1]:
        shapes.append(_rectangle(*noise))
    one = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    shapes.append({**one, "line": {"color": "$ink", "width": 1.5}})
    layout = {
        "height": 96 + ROW * len(shown),
        "margin": {"l": 8, "r": 8, "t": 8, "b": 44},
        "xaxis": {
            "range": [least - pad, most + pad],
            "ticksuffix": "×",
            "showgrid": False,
            "ticks": "outside",
            "title": title("ratio"),
        },
        "yaxis": {"visible": False, "range": [0.6 - len(shown), 0.9], "fixedrange": True},
        "annotations": names,
        "shapes": shapes,
        "showlegend": len(statuses) > 1,
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left"},
    }
    data = [_status(shown, status) for status in statuses]
    best = max(shown, key=lambda one: one.speedup.ratio if one.speedup else 0.0)
    words = (
        f"Speed-up of {units.plural(len(shown), 'trial')} with 95 % intervals. "
        f"The highest is {best.name}: {wording.speedup(best.speedup)}, {best.status}."
    )
    return Figure(data, layout, words)


def _ends(trial: Trial) -> tuple[float | None, float | None, float | None]:
    found = trial.speedup
    assert found is not None
    return finite(found.low), finite(found.ratio), finite(found.high)


def _rectangle(low: float, high: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "x0": low,
        "x1": high,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "layer": "below",
        "line": {"width": 0},
        "fillcolor": "$shade",
    }


def _labels(trial: Trial, row: int) -> list[dict[str, Any]]:
    found = f"{wording.ratio(trial.speedup.ratio if trial.speedup else None)} · {trial.status}"
    shared = {"y": row, "yshift": 18, "showarrow": False, "xref": "paper"}
    return [
        {**shared, "x": 0, "xanchor": "left", "text": text(trial.name, LONGEST_NAME)},
        {**shared, "x": 1, "xanchor": "right", "text": text(found), "font": {"color": "$quiet"}},
    ]


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
