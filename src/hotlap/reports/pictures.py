"""Pictures of a study as plotly.js dicts: lines with intervals or bands, bars."""

from __future__ import annotations

from typing import Any

from hotlap.answers import Axis, Picture, Series
from hotlap.reports.figures import Figure, text, title
from hotlap.reports.wording import finite

COLOURS = ("$forward", "$input", "$optimizer", "$transfer", "$backward", "$bad", "$other", "$ink")
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon")
FAINT = 0.15
MEBI = float(1 << 20)


def figure(picture: Picture) -> Figure:
    draw = _bars if picture.kind in ("bars", "stacked") else _line
    data = [draw(one, number, picture) for number, one in enumerate(picture.series)]
    if picture.kind == "bands":
        data = [*_bands(picture), *data]  # below all lines
    layout: dict[str, Any] = {
        "height": 360,
        "xaxis": _axis(picture.x, _values(picture, "x")),
        "yaxis": {**_axis(picture.y, []), "rangemode": "tozero"},
        "showlegend": len(picture.series) > 1,
    }
    if picture.kind in ("bars", "stacked"):
        layout["barmode"] = "stack" if picture.kind == "stacked" else "group"
    return Figure(data, layout, picture.words)


def _values(picture: Picture, name: str) -> list[Any]:
    return [value for one in picture.series for value in getattr(one, name)]


def _axis(axis: Axis, values: list[Any]) -> dict[str, Any]:
    unit = axis.title.replace("bytes", "MiB", 1) if axis.unit == "bytes" else axis.title
    made: dict[str, Any] = {"title": title(text(unit))}
    if axis.unit == "share":
        made["tickformat"] = ".0%"
    if axis.log:
        made["type"] = "log"
        ticks = sorted({value for value in map(finite, values) if value is not None and value > 0})
        if ticks and len(ticks) <= 16:  # what was measured, and not the powers of ten between
            made.update(tickmode="array", tickvals=ticks, ticktext=[f"{one:,g}" for one in ticks])
    elif any(isinstance(value, str) for value in values):
        made["type"] = "category"
    return made


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
        "name": text(one.name),
        "x": [text(x) if isinstance(x, str) else finite(x) for x in one.x],
        "y": _scaled(one.y, picture.y),
        "error_y": _errors(one, picture),
        "marker": {"color": COLOURS[number % len(COLOURS)]},
    }


def _scaled(values: tuple[float | None, ...], axis: Axis) -> list[float | None]:
    factor = 1 / MEBI if axis.unit == "bytes" else 1.0
    known = map(finite, values)
    return [None if value is None else value * factor for value in known]


def _errors(one: Series, picture: Picture) -> dict[str, Any]:
    """Bars from the lower to the upper end; none where a value has no interval."""
    if not one.low or not one.high:
        return {"visible": False}
    middle, low, high = (_scaled(part, picture.y) for part in (one.y, one.low, one.high))
    pairs = list(zip(middle, low, high, strict=False))
    return {
        "type": "data",
        "symmetric": False,
        "array": [None if m is None or h is None else h - m for m, _, h in pairs],
        "arrayminus": [None if m is None or b is None else m - b for m, b, _ in pairs],
        "thickness": 1.5,
        "color": "$quiet",
    }
