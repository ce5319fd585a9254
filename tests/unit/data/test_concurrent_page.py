"""docs/data/concurrent.md has every option with its default, and its examples run."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from hotlap.data import attempts, batches
from hotlap.data.concurrent import Concurrent
from hotlap.data.remote import Objects

PAGE = Path(__file__).parents[3] / "docs" / "data" / "concurrent.md"
TEXT = PAGE.read_text()
SPELLED = {
    attempts.RETRY: "(OSError, TimeoutError)",
    attempts.Attempts.clock: "time.monotonic",
    attempts.Attempts.sleep: "threading.Event.wait",
}


def said(default: Any) -> str:
    return SPELLED.get(default) or (f'"{default}"' if isinstance(default, str) else f"{default}")


@pytest.mark.parametrize("kind", [Concurrent, Objects])
def test_the_signature_is_the_real_one(kind: Any) -> None:
    shown = re.search(rf"`{kind.__name__}\(([^`]*)\)`", TEXT)
    assert shown is not None
    words, starred = [], False
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        default = parameter.default
        words.append(name if default is inspect.Parameter.empty else f"{name}={said(default)}")
    assert " ".join(shown[1].split()) == ", ".join(words)


@pytest.mark.parametrize("kind", [Concurrent, Objects])
def test_every_option_is_in_a_table(kind: Any) -> None:
    rows = "\n".join(re.findall(r"^\| (`[^|]*) \|", TEXT, re.MULTILINE))
    options = [name for name in inspect.signature(kind).parameters if name != "dataset"]
    assert [name for name in options if f"`{name}`" not in rows] == []


def test_limits_are_those_of_the_code() -> None:
    assert f"at most {attempts.LONGEST_PAUSE_SECONDS:g} s" in TEXT
    assert f"within {batches.LINGER_SECONDS:g} s" in TEXT


def test_the_numbers_are_the_recorded_ones() -> None:
    results = PAGE.parents[2] / "bench" / "results" / "storage-cpu.json"
    for name, row in json.loads(results.read_text())["loaders"].items():
        rate, times = row["samples_per_second"], row["times_stock"]
        assert f"| {name} | {rate:,.0f} | {times:.1f} |" in TEXT
