"""A study's pictures as SVG: lines with intervals, bands, bars. For pages that run no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from hotlap.answers import Axis, Picture, Series
from hotlap.reports import ticks

WIDTH, HEIGHT = 760.0, 340.0
TOP, RIGHT, BOTTOM, LEFT = 18.0, 24.0, 48.0, 92.0
LETTER = 6.3  # the width of one, about
LABELS = 250.0  # of bars, at most
BAR, GAP, LINE = 14.0, 8.0, 20.0
CLOSEST = 30.0  # two ticks
COLOURS = ("#2563eb", "#d97706", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#64748b", "#1f2937")
DASHES = ("", "7 4", "2 3", "8 3 2 3")
BYTES = {1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB"}
INK, QUIET, FAINT = "#1f2937", "#64748b", "#e2e8f0"
STYLE = (
    f"text{{font:12px system-ui,sans-serif;fill:{INK}}}.q{{fill:{QUIET}}}"
    ".e{text-anchor:end}.m{text-anchor:middle}"
)

Place = Callable[[float], float]


def svg(picture: Picture) -> str:
    draw = _bars if picture.kind in ("bars", "stacked") else _lines
    body, height = draw(picture)
    legend, below = _legend(picture, height)
    title = f"<title>{escape(picture.words)}</title>"
    size = f'width="{WIDTH:g}" height="{below:g}" viewBox="0 0 {WIDTH:g} {below:g}"'
    paper = f'<rect width="{WIDTH:g}" height="{below:g}" rx="6" fill="#ffffff"/>'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    parts = [opening, title, f"<style>{STYLE}</style>", paper, *body, *legend, "</svg>", ""]
    return "\n".join(parts)


# Lines -----------------------------------------------------------------------------------------


def _lines(picture: Picture) -> tuple[list[str], float]:
    names = _names(picture)
    across = [LEFT, WIDTH - RIGHT]
    if names:
        spots = {name: index for index, name in enumerate(names)}
        x, x_ticks = _scale([0, max(1, len(names) - 1)], picture.x, *across)
        x_ticks = [(float(index), name) for index, name in enumerate(names)]
    else:
        spots = {}
        x, x_ticks = _scale(_known(picture, "x"), picture.x, *across, measured=True)
    values = [*_known(picture, "y"), *_known(picture, "high")]
    y, y_ticks = _scale(values, picture.y, HEIGHT - BOTTOM, TOP, zero=not picture.y.log)
    parts = _grid(picture, x, x_ticks, y, y_ticks)
    for number, one in enumerate(picture.series):
        at = [spots[value] if isinstance(value, str) else value for value in one.x]
        parts += _line(one, at, number, x, y, band=picture.kind == "bands")
    return parts, HEIGHT


def _line(
    one: Series, at: Sequence[float], number: int, x: Place, y: Place, *, band: bool
) -> list[str]:
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    parts = []
    between = [
        (x(where), y(low), y(high))
        for where, low, high in zip(at, one.low, one.high, strict=False)
        if low is not None and high is not None
    ]
    if band and between:
        edge = [(a, c) for a, _, c in between] + [(a, b) for a, b, _ in reversed(between)]
        parts.append(f'<polygon points="{_points(edge)}" fill="{colour}" opacity="0.15"/>')
    elif between:
        parts += [
            f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{a:.1f}" y2="{c:.1f}" stroke="{QUIET}"/>'
            for a, b, c in between
        ]
    seen = [
        (x(where), y(value)) for where, value in zip(at, one.y, strict=True) if value is not None
    ]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    parts.append(
        f'<polyline points="{_points(seen)}" fill="none" stroke="{colour}" stroke-width="2"'
        f"{dashed}/>"
    )
    parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.2" fill="{colour}"/>' for a, b in seen]
    return parts


def _grid(
    picture: Picture,
    x: Place,
    x_ticks: Sequence[tuple[float, str]],
    y: Place,
    y_ticks: Sequence[tuple[float, str]],
) -> list[str]:
    bottom = HEIGHT - BOTTOM
    parts = []
    for value, words in y_ticks:
        at = y(value)
        parts.append(
            f'<line x1="{LEFT:g}" y1="{at:.1f}" x2="{WIDTH - RIGHT:g}" y2="{at:.1f}" '
            f'stroke="{FAINT}"/>'
        )
        parts.append(f'<text class="q e" x="{LEFT - 8:g}" y="{at + 4:.1f}">{escape(words)}</text>')
    for value, words in x_ticks:
        at = x(value)
        parts.append(f'<text class="q m" x="{at:.1f}" y="{bottom + 18:.1f}">{escape(words)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text class="m" x="{middle:.1f}" y="{HEIGHT - 10:g}">{escape(picture.x.title)}</text>'
    )
    turned = f"rotate(-90 14 {(TOP + bottom) / 2:.1f})"
    parts.append(
        f'<text class="m" x="14" y="{(TOP + bottom) / 2:.1f}" transform="{turned}">'
        f"{escape(picture.y.title)}</text>"
    )
    return parts


# Bars ------------------------------------------------------------------------------------------


def _bars(picture: Picture) -> tuple[list[str], float]:
    """Lying, so that long names can be read; stacked ones end to end."""
    stacked = picture.kind == "stacked"
    names = _names(picture) or [f"{value:g}" for value in picture.series[0].x]
    left = min(LABELS, 20 + LETTER * max(map(len, names), default=1))
    each = BAR if stacked else BAR * len(picture.series)
    bottom = TOP + len(names) * (each + GAP)
    if stacked:
        longest = [sum(one.y[at] or 0.0 for one in picture.series) for at in range(len(names))]
    else:
        longest = [*_known(picture, "y"), *_known(picture, "high")]
    x, ticks = _scale(longest, picture.y, left, WIDTH - RIGHT - 20, zero=True)
    parts = []
    for value, words in ticks:
        at = x(value)
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP - 6:g}" x2="{at:.1f}" y2="{bottom:.1f}" '
            f'stroke="{FAINT}"/>'
        )
        parts.append(f'<text class="q m" x="{at:.1f}" y="{bottom + 16:.1f}">{escape(words)}</text>')
    parts.append(
        f'<text class="m" x="{(left + WIDTH) / 2:.1f}" y="{bottom + 36:.1f}">'
        f"{escape(picture.y.title)}</text>"
    )
    for row, name in enumerate(names):
        top = TOP + row * (each + GAP)
        label = f'<text class="e" x="{left - 8:.1f}" y="{top + each / 2 + 4:.1f}">'
        parts.append(f"{label}{escape(_short(name, left))}</text>")
        parts += _row(picture, row, top, x, stacked=stacked)
    return parts, bottom + BOTTOM


def _row(picture: Picture, row: int, top: float, x: Place, *, stacked: bool) -> list[str]:
    parts, begin = [], 0.0
    for number, one in enumerate(picture.series):
        value = one.y[row] if row < len(one.y) else None
        if value is None:
            continue
        at = top if stacked else top + number * BAR
        end = begin + value if stacked else value
        parts.append(
            f'<rect x="{x(begin):.1f}" y="{at:.1f}" width="{x(end) - x(begin):.1f}" '
            f'height="{BAR - 1:g}" fill="{COLOURS[number % len(COLOURS)]}"/>'
        )
        low, high = (part[row] if row < len(part) else None for part in (one.low, one.high))
        if low is not None and high is not None and not stacked:
            middle = at + (BAR - 1) / 2
            parts.append(
                f'<line x1="{x(low):.1f}" y1="{middle:.1f}" x2="{x(high):.1f}" '
                f'y2="{middle:.1f}" stroke="{INK}" stroke-width="1.5"/>'
            )
        begin = end if stacked else 0.0
    return parts


def _short(name: str, width: float) -> str:
    most = int((width - 12) / LETTER)
    return name if len(name) <= most else f"{name[: most - 1]}…"


# What both have --------------------------------------------------------------------------------


def _legend(picture: Picture, top: float) -> tuple[list[str], float]:
    if len(picture.series) < 2:
        return [], top
    parts, x, y = [], LEFT, top + 8
    for number, one in enumerate(picture.series):
        width = 44 + LETTER * len(one.name)
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, y = LEFT, y + LINE
        colour = COLOURS[number % len(COLOURS)]
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 8:.1f}" width="12" height="8" rx="2" fill="{colour}"/>'
        )
        parts.append(f'<text x="{x + 18:.1f}" y="{y:.1f}">{escape(one.name)}</text>')
        x += width
    return parts, y + 14


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _names(picture: Picture) -> list[str]:
    """The categories of the x axis, in their order; none where it has numbers."""
    values = [value for one in picture.series for value in one.x]
    if not any(isinstance(value, str) for value in values):
        return []
    return list(dict.fromkeys(str(value) for value in values))


def _known(picture: Picture, name: str) -> list[float]:
    values = [value for one in picture.series for value in getattr(one, name)]
    return [float(value) for value in values if isinstance(value, (int, float))]


def _scale(
    values: Sequence[float],
    axis: Axis,
    begin: float,
    end: float,
    *,
    zero: bool = False,
    measured: bool = False,
) -> tuple[Place, list[tuple[float, str]]]:
    """Where a value lies between two ends of the paper, and the ticks; on request from zero."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if axis.log:
        high = high if high > 0 else 1.0
        low = max(low, high * 1e-9)
        if not measured:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
    elif zero:
        low = min(0.0, low)
    if high <= low:
        high = low * 10 if axis.log else low + 1.0
    log = math.log10 if axis.log else float

    def place(value: float) -> float:
        share = (log(max(value, low) if axis.log else value) - log(low)) / (log(high) - log(low))
        return begin + share * (end - begin)

    if measured and len(set(values)) <= 16 and all(float(value).is_integer() for value in values):
        at = sorted(set(values))
    elif axis.log:
        at = ticks.of_logarithmic(low, high)
    else:
        whole = _whole(high) if axis.unit == "bytes" else 1
        at = [whole * tick for tick in ticks.of_linear(low / whole, high / whole)]
    kept: list[float] = []
    for tick in at:
        if not kept or abs(place(tick) - place(kept[-1])) >= CLOSEST:
            kept.append(tick)
    return place, [(tick, _worded(tick, axis)) for tick in kept]


def _whole(size: float) -> int:
    """The largest unit of bytes that it has one of."""
    return next((one for one in BYTES if size >= one), 1)


def _worded(value: float, axis: Axis) -> str:
    if axis.unit == "bytes":
        whole = _whole(abs(value))
        return f"{value / whole:,g} {BYTES.get(whole, 'B')}" if value else "0"
    if axis.unit == "share":
        return f"{value * 100:g} %"
    return ticks.worded(value)
