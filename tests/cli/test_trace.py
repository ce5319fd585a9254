"""hotlap profile --trace: what torch.profiler saw, in the form that others' tools open."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripted import Answer

ENOUGH = ("--steps", "120", "--seconds", "1.5")
Hotlap = Callable[..., Answer]


def events(file: Path) -> list[dict[str, Any]]:
    text = file.read_bytes()
    content = json.loads(gzip.decompress(text) if file.suffix == ".gz" else text)
    found: list[dict[str, Any]] = content["traceEvents"]
    return found


def test_the_trace_has_operations_inside_the_phases_they_belong_to(
    hotlap: Hotlap, tmp_path: Path
) -> None:
    file = tmp_path / "steps.json.gz"
    answer = hotlap("plain.py", options=(*ENOUGH, "--trace", str(file)))
    assert answer.code == 0, answer.errors
    found = [one for one in events(file) if one.get("ph") == "X"]
    spans = [
        (one["ts"], one["ts"] + one["dur"]) for one in found if one["name"] == "hotlap::forward"
    ]
    linear = [one["ts"] for one in found if one["name"] == "aten::linear"]
    assert len(spans) >= 3
    assert linear
    assert all(any(begin <= at <= end for begin, end in spans) for at in linear)
    assert {"hotlap::backward", "hotlap::optimizer"} <= {one["name"] for one in found}
    steps = [one for one in found if one["name"].startswith("ProfilerStep#")]
    backwards = [one["ts"] for one in found if one["name"] == "hotlap::backward"]
    assert len(steps) >= 3
    for step in steps:
        within = [at for at in backwards if step["ts"] <= at <= step["ts"] + step["dur"]]
        assert len(within) == 1, "a step has one backward pass"
    assert answer.result is not None
    assert answer.result["trace"] == str(file)
    assert str(file) in "".join(answer.output.split())  # a long path is told in two lines
    assert not list(answer.out.rglob("traces/*")), "and only there"
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_of_several_ranks_it_is_the_first_ones(hotlap: Hotlap, tmp_path: Path) -> None:
    file = tmp_path / "steps.json"
    words = ("torchrun", "--nproc-per-node", "2", "ddp.py")
    answer = hotlap(*words, options=(*ENOUGH, "--trace", str(file)))
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    first = next(one["pid"] for one in answer.result["ranks"] if one["rank"] == 0)
    assert first in {one.get("pid") for one in events(file)}


def test_a_command_too_short_for_it_has_a_second_run_and_that_ones_trace(
    hotlap: Hotlap, tmp_path: Path
) -> None:
    file = tmp_path / "steps.json"
    answer = hotlap("short.py", options=(*ENOUGH, "--trace", str(file)))
    assert answer.code == 0, answer.errors
    assert any(one["name"] == "hotlap::backward" for one in events(file))


def test_where_there_is_none_it_says_so_and_leaves_an_older_one_alone(
    hotlap: Hotlap, tmp_path: Path
) -> None:
    file = tmp_path / "steps.json"
    file.write_text("older")
    answer = hotlap("tiny.py", options=(*ENOUGH, "--trace", str(file)))
    assert answer.code == 0, answer.errors
    assert "There is no trace of the command" in answer.errors
    assert answer.result is not None
    assert answer.result["trace"] is None
    assert file.read_text() == "older"


def test_a_trace_that_cannot_be_written_is_refused_before_the_command_runs(
    hotlap: Hotlap, tmp_path: Path
) -> None:
    answer = hotlap("plain.py", options=("--trace", str(tmp_path / "no" / "where.json")))
    assert answer.code == 2
    assert "--trace" in answer.errors
    assert not answer.out.exists()


def test_a_trace_that_finds_no_room_is_kept_in_the_run_and_so_is_what_was_measured(
    hotlap: Hotlap,
) -> None:
    answer = hotlap("plain.py", options=(*ENOUGH, "--trace", "/dev/full"))
    assert answer.code == 0, answer.errors
    assert "/dev/full cannot be written: No space left on device" in answer.errors
    assert answer.result is not None
    kept = Path(answer.result["trace"])
    assert kept.is_relative_to(answer.out)
    assert any(one["name"] == "hotlap::backward" for one in events(kept))
