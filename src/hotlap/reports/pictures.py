"""Pictures of a study as plotly.js dicts: lines with intervals or bands, bars."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from hotlap.answers import Axis, Picture, Series
from hotlap.reports import ticks
from hotlap.reports.figures import Figure, text, title
from hotlap.reports.wording import finite

COLOURS = ("$forward", "$input", "$optimizer", "$transfer", "$backward", "$bad", "$other", "$ink")
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon")
FAINT = 0.15
MEBI = float(1 << 20)
ROW, THINNEST, GAP = 26, 12, 10  # pixels: a row of bars, a bar beside others, between rows
LONGEST_NAME = 32
LEGEND_ROW = 22
NONE = "none"  # of an error bar: plotly.js takes null for zero and draws that


def figure(picture: Picture) -> Figure:
    if picture.kind in ("bars", "stacked"):
        return _lying(picture)
    data = [_line(one, number, picture) for number, one in enumerate(picture.series)]
    if picture.kind == "bands":
        data = [*_bands(picture), *data]  # below all lines
    across = _axis(picture.x, _values(picture, "x"), measured=True)
    layout: dict[str, Any] = {
        "height": 340 + _legend(picture),
        "xaxis": across,
        "yaxis": {**_axis(picture.y, _heights(picture)), "rangemode": "tozero"},
        "showlegend": len(picture.series) > 1,
    }
    return Figure(data, layout, picture.words, {"xaxis": {**across, **_fewer(across)}})


def _legend(picture: Picture) -> int:
    """Pixels for it: on a telephone it has two names in a row, and must not eat the picture."""
    return LEGEND_ROW * -(-len(picture.series) // 2)


def _lying(picture: Picture) -> Figure:
    """Bars from left to right: names of any length and number stand beside them."""
    data = [_bars(one, number, picture) for number, one in enumerate(picture.series)]
    names = list(dict.fromkeys(name for one in data for name in one["y"]))
    stacked = picture.kind == "stacked"
    each = ROW if stacked else max(ROW, THINNEST * len(data) + GAP)
    layout: dict[str, Any] = {
        "height": 80 + each * len(names) + _legend(picture),
        "xaxis": _lengths(picture.y, _heights(picture)),
        "yaxis": {
            "type": "category",
            "autorange": "reversed",
            "showgrid": False,
            "tickmode": "array",
            "tickvals": names,
            "ticktext": [_short(name) for name in names],
            "tickfont": {"color": "$ink"},
            "ticklabelstandoff": 6,
        },
        "showlegend": len(data) > 1,
        "legend": {"traceorder": "normal"},
        "barmode": "stack" if stacked else "group",
        "bargap": 0.25,
    }
    return Figure(data, layout, picture.words)


def _short(name: str) -> str:
    """Its text is escaped: what is cut is the name itself."""
    return text(html.unescape(name), LONGEST_NAME)


def _values(picture: Picture, name: str) -> list[Any]:
    return [value for one in picture.series for value in getattr(one, name)]


def _heights(picture: Picture) -> list[float | None]:
    """All values that are drawn upwards, the ends of their intervals among them."""
    return _scaled(
        [one for name in ("y", "low", "high") for one in _values(picture, name)], picture.y
    )


def _axis(axis: Axis, values: list[Any], *, measured: bool = False) -> dict[str, Any]:
    unit = axis.title.replace("bytes", "MiB", 1) if axis.unit == "bytes" else axis.title
    made: dict[str, Any] = {"title": title(text(unit))}
    if axis.unit == "share":
        made["tickformat"] = ".0%"
    if axis.log:
        made["type"] = "log"
        at = _ticks(_positive(values), measured=measured)
        words = [f"{one:.0%}" if axis.unit == "share" else ticks.worded(one) for one in at]
        made.update(tickmode="array", tickvals=at, ticktext=words)
    elif any(isinstance(value, str) for value in values):
        made["type"] = "category"
    return made


def _fewer(axis: dict[str, Any]) -> dict[str, Any]:
    """Of its numbers those that have room on a telephone, where they are ours to choose."""
    if "tickvals" not in axis:
        return {}
    kept = ticks.apart(axis["tickvals"], ticks.CLOSEST_ON_NARROW)
    words = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    return {"tickvals": kept, "ticktext": [words[one] for one in kept]}


def _ticks(known: list[float], *, measured: bool) -> list[float]:
    """What was measured, where that was chosen: batch sizes, threads. Else round numbers."""
    if measured and len(known) <= 16 and all(float(one).is_integer() for one in known):
        return ticks.apart(known)
    return ticks.of_logarithmic(known[0], known[-1]) if known else []


def _positive(values: list[Any]) -> list[float]:
    return sorted({one for one in map(finite, values) if one is not None and one > 0})


def _lengths(axis: Axis, values: list[float | None]) -> dict[str, Any]:
    """A logarithmic axis has no zero that bars could begin at: they begin at a power of ten."""
    known = _positive(values)
    if not axis.log or not known:
        return _axis(axis, values)
    power = math.ceil(math.log10(known[0])) - 1
    ends = [power, math.log10(known[-1]) + 0.05]
    return {**_axis(axis, [10.0**power, *known]), "range": ends}


def _line(one: Series, number: int, picture: Picture) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": text(one.name),
        "x": [text(x) if isinstance(x, str) else finite(x) for x in one.x],
        "y": _scaled(one.y, picture.y),
        "error_y": {"visible": False} if picture.kind == "bands" else _errors(one, picture),
        "legendgroup": text(one.name),
        "line": {
            "color": COLOURS[number % len(COLOURS)],
            "width": 2,
            "dash": DASHES[number % len(DASHES)],
        },
        "marker": {"size": 7, "symbol": SYMBOLS[number % len(SYMBOLS)]},
    }


def _bands(picture: Picture) -> list[dict[str, Any]]:
    """The interval of each line as an area around it; where it has none, there is no area."""
    areas = []
    for number, one in enumerate(picture.series):
        low, high = (_scaled(part, picture.y) for part in (one.low, one.high))
        known = [
            (text(x) if isinstance(x, str) else finite(x), b, h)
            for x, b, h in zip(one.x, low, high, strict=False)
            if b is not None and h is not None
        ]
        if not known:
            continue
        areas.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [x for x, _, _ in [*known, *reversed(known)]],
                "y": [h for _, _, h in known] + [b for _, b, _ in reversed(known)],
                "fill": "toself",
                "fillcolor": COLOURS[number % len(COLOURS)],
                "opacity": FAINT,
                "line": {"width": 0},
                "hoverinfo": "skip",
                "showlegend": False,
                "legendgroup": text(one.name),  # hidden together with its line
            }
        )
    return areas


def _bars(one: Series, number: int, picture: Picture) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": text(one.name),
        "y": [text(x) if isinstance(x, str) else ticks.worded(x) for x in one.x],
        "x": _scaled(one.y, picture.y),
        "error_x": _errors(one, picture),
        "marker": {"color": COLOURS[number % len(COLOURS)]},
    }


def _scaled(values: Sequence[float | None], axis: Axis) -> list[float | None]:
    factor = 1 / MEBI if axis.unit == "bytes" else 1.0
    known = map(finite, values)
    return [None if value is None else value * factor for value in known]


def _errors(one: Series, picture: Picture) -> dict[str, Any]:
    """Bars from the lower to the upper end; none where a value has no interval."""
    middle, low, high = (_scaled(part, picture.y) for part in (one.y, one.low, one.high))
    pairs = [
        (NONE, NONE) if m is None or b is None or h is None else (h - m, m - b)
        for m, b, h in zip(middle, low, high, strict=False)
    ]
    if all(pair == (NONE, NONE) for pair in pairs):
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [up for up, _ in pairs],
        "arrayminus": [down for _, down in pairs],
        "thickness": 1.5,
        "color": "$ink",
    }
