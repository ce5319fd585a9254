"""The pictures of the docs: well-formed, escaped, and nothing drawn beside the paper."""

import math
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from generating import drawing

from hotlap.answers import Axis, Picture, Series

KINDS = ("lines", "bands", "bars", "stacked")
NAMES = ("stock", "<b>fused & 'compiled'</b>", "a name that is far too long to stand beside a bar")


def picture(kind, *, x=NAMES, y=(1.0, None, 3e4), log=False, unit=""):
    spread = {"low": [v and v / 2 for v in y], "high": [v and v * 2 for v in y]}
    series = [
        Series(name=name, x=tuple(x), y=tuple(y), **{k: tuple(v) for k, v in spread.items()})
        for name in ("<one>", "two")
    ]
    axes = {"x": Axis(title="x & y", log=log), "y": Axis(title="y", unit=unit, log=log)}
    return Picture(kind=kind, **axes, series=tuple(series), words="what <it> shows")


@pytest.mark.parametrize("unit", ["", "bytes", "share"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_well_formed_and_says_whose_line_is_whose(kind, unit):
    root = ElementTree.fromstring(drawing.svg(picture(kind, unit=unit)))
    words = [element.text for element in root.iter() if element.text]
    assert {"what <it> shows", "<one>", "two"} <= set(words)
    assert any(word.startswith("stock") for word in words)


@example(kind="lines", y=[1.0] * 17, log=True, unit="", numbers=True)
@given(
    kind=st.sampled_from(KINDS),
    y=st.lists(st.none() | st.floats(1e-6, 1e12), min_size=1, max_size=20),
    log=st.booleans(),
    unit=st.sampled_from(["", "bytes", "share"]),
    numbers=st.booleans(),
)
def test_everything_lies_on_the_paper(kind, y, log, unit, numbers):
    x = (
        [float(at + 1) for at in range(len(y))]
        if numbers
        else [f"row {at}" for at in range(len(y))]
    )
    text = drawing.svg(picture(kind, x=x, y=y, log=log, unit=unit))
    root = ElementTree.fromstring(text)
    width, height = float(root.get("width")), float(root.get("height"))
    for name, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("cy", height)):
        for value in re.findall(rf' {name}="([^"]+)"', text):
            assert math.isfinite(float(value))
            assert -0.5 <= float(value) <= most + 0.5


def test_a_bar_without_an_interval_has_no_line_across_it():
    one = Series(name="a", x=("p", "q"), y=(1.0, 2.0), low=(None, 1.5), high=(None, 2.5))
    axes = {"x": Axis(title="x"), "y": Axis(title="y")}
    text = drawing.svg(Picture(kind="bars", **axes, series=(one,), words=""))
    assert text.count('stroke-width="1.5"') == 1
