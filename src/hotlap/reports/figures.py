"""Plots as plain plotly.js dicts; colours are names (`$good`) that the page fills in.

Plain dicts and not plotly.graph_objects: that import alone would take longer than the whole page.
Each figure comes with a sentence that says what it shows, for those who cannot see it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hotlap import stats, units
from hotlap.records import Profile
from hotlap.reports import curves, wording
from hotlap.reports.wording import finite
from hotlap.tunings import Tuning

BAND = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}


@dataclass(frozen=True)
class Figure:
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    words: str
    narrow: dict[str, Any] = field(default_factory=dict)  # what the layout is instead, if narrow


def text(words: str, longest: int = 200) -> str:
    """plotly reads tags and entities in its texts; a user's words are shown as they are."""
    flat = " ".join(words.split())
    short = flat if len(flat) <= longest else flat[: longest - 1].rstrip() + "…"
    return html.escape(short, quote=False)


def title(words: str) -> dict[str, Any]:
    return {"text": words}


def steps(before: Profile, after: Profile | None = None) -> Figure | None:
    """Every step's time as a dot, the median as a line."""
    runs = [("before", "$before", "circle-open", before.step_seconds)]
    if after is not None:
        runs.append(("after", "$after", "circle", after.step_seconds))
    series = [(*run[:3], *curves.extremes(run[3]), run[3]) for run in runs]
    every = [value for run in series for value in run[4]]
    if not every:
        return None
    # One step that compiled for a minute must not press all others flat.
    top = min(1.05 * max(every), 1.5 * stats.quantile(every, 0.98))
    factor, unit = (1.0, "s") if stats.median(every) >= 1 else (1e3, "ms")
    data: list[dict[str, Any]] = []
    words: list[str] = []
    for name, colour, symbol, at, values, raw in series:
        if not values:
            continue
        middle = stats.median([one for one in map(finite, raw) if one is not None])
        label = name if after is not None else "steps"
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label,
                "x": at,
                "y": [value * factor for value in values],
                "hovertemplate": f"step %{{x}}: %{{y:.3~g}} {unit}<extra>{label}</extra>",
                "marker": {"size": 5, "symbol": symbol, "color": colour, "opacity": 0.85},
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [1, len(raw)],
                "y": [middle * factor] * 2,
                "hoverinfo": "skip",
                "showlegend": False,
                "line": {
                    "color": colour,
                    "width": 2,
                    "dash": "solid" if name == "after" else "dash",
                },
            }
        )
        said = "" if after is None else f"{name}: "
        words.append(f"{said}{units.plural(len(raw), 'step')}, median {units.seconds(middle)}")
    longest = max(len(run[5]) for run in series)
    above = sum(value > top for value in every)
    if above:
        most = units.seconds(max(every))
        words.append(f"{units.plural(above, 'step')} above the picture, the longest {most}")
    layout = {
        "height": 320,
        "xaxis": {"title": title("step"), "range": [0, 1.02 * longest]},
        "yaxis": {"title": title(unit), "range": [0, top * factor]},
        "showlegend": after is not None,
    }
    return Figure(data, layout, f"Time of each step. {_sentence(words)}")


def losses(tuning: Tuning) -> Figure | None:
    """The baseline's runs, the band the guard allows around their mean, and the winner's runs."""
    plain = [run.losses for run in tuning.baseline_runs if run.losses] or [tuning.baseline.losses]
    alike = [run.losses for run in tuning.baseline_runs if run.losses and not run.seed] or plain
    changed = [run.losses for run in wording.winners_runs(tuning) if run.losses]
    winner = tuning.winner
    if not changed and winner is not None and winner.profile is not None:
        changed = [winner.profile.losses]
    band: list[dict[str, Any]] = []
    tolerance = finite(winner.guard.tolerance) if winner is not None else None
    if tolerance is not None:
        steps = winner.guard.steps if winner is not None else 0
        band = _band(curves.smoothed(curves.mean(alike))[: steps or None], tolerance)
    data = band + _lines(plain, "before", "$before", "dash") + _lines(changed, "after", "$after")
    if len(data) == len(band):
        return None
    words = [_lasting("before", plain), _lasting("after", changed)]
    compared = [_compared(alike, changed)]
    if band:
        compared.append(f"the band allows {tolerance:.2g} either way")
    layout = {
        "height": 360,
        "xaxis": {"title": title("step")},
        "yaxis": {"title": title("loss, smoothed")},
        "showlegend": bool(changed),
    }
    said = f"The loss as it was learned. {_sentence(words)} {_sentence(compared)}"
    return Figure(data, layout, said.strip())


def loss(profile: Profile) -> Figure | None:
    lines = _lines([profile.losses], "loss", "$after")
    if not lines:
        return None
    layout = {
        "height": 300,
        "xaxis": {"title": title("step")},
        "yaxis": {"title": title("loss, smoothed")},
        "showlegend": False,
    }
    return Figure(lines, layout, f"The loss as it was learned. {_sentence([_end(profile.losses)])}")


def _band(middle: list[float | None], tolerance: float) -> list[dict[str, Any]]:
    at, values = curves.thinned(middle)
    known = [(x, y) for x, y in zip(at, values, strict=True) if y is not None]
    if not known:
        return []
    x = [x for x, _ in known]
    low = {**BAND, "x": x, "y": [y - tolerance for _, y in known], "showlegend": False}
    high = {**BAND, "x": x, "y": [y + tolerance for _, y in known], "name": "what the guard allows"}
    return [
        {"type": "scatter", **low},
        {"type": "scatter", **high, "fill": "tonexty", "fillcolor": "$shade"},
    ]


def _lines(
    runs: Sequence[curves.Series], name: str, colour: str, dash: str = "solid"
) -> list[dict[str, Any]]:
    filled = [run for run in runs if any(finite(loss) is not None for loss in run)]
    lines = []
    for number, run in enumerate(filled):
        at, values = curves.thinned(curves.smoothed(run))
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name if len(filled) == 1 else f"{name} ({len(filled)} runs)",
                "legendgroup": name,
                "showlegend": number == 0,
                "x": at,
                "y": values,
                "hovertemplate": f"step %{{x}}: %{{y:.4~g}}<extra>{name}</extra>",
                "line": {"color": colour, "width": 1.75, "dash": dash},
            }
        )
    return lines


def _lasting(name: str, runs: Sequence[curves.Series]) -> str:
    """before: 3 runs of 118 to 233 steps."""
    lengths = sorted(len(run) for run in runs if run)
    if not lengths:
        return ""
    shortest, longest = lengths[0], units.plural(lengths[-1], "step")
    steps = longest if shortest == lengths[-1] else f"{units.count(shortest)} to {longest}"
    return f"{name}: {units.plural(len(lengths), 'run')} of {steps}"


def _compared(before: Sequence[curves.Series], after: Sequence[curves.Series]) -> str:
    """The mean of both over the same steps, those by which the guard judges."""
    last = min((len(run) for run in (*before, *after) if run), default=0)
    later = slice(last // 2, last)
    halves = [
        [one for one in curves.mean(runs)[later] if one is not None] for runs in (before, after)
    ]
    if not all(halves):
        return ""
    over = f"over steps {units.count(later.start + 1)} to {units.count(last)}"
    means = [f"{stats.mean(half):.4g}" for half in halves]
    half = "the later half of those both have"
    return f"{over}, {half}, its mean is {means[0]} before and {means[1]} after"


def _end(run: curves.Series) -> str:
    """Where the curve ends: the mean over its last tenth."""
    known = [one for one in map(finite, run) if one is not None]
    if not known:
        return ""
    last = stats.mean(known[-max(1, len(known) // 10) :])
    return f"{units.plural(len(known), 'step')}, ending at {last:.4g}"


def _sentence(words: Sequence[str]) -> str:
    said = "; ".join(word for word in words if word)
    return said[:1].upper() + said[1:] + "." if said else ""
