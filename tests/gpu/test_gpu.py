"""What only a GPU can show. Run there with `make test-gpu`; not part of `make test`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import SCRIPTS, Answer, expected

COMMANDS = {"cuda_ddp.py": ("torchrun", "--nproc-per-node", "1", "cuda_ddp.py")}
SHAPES = ("cuda_amp.py", "cuda_graphs.py", "cuda_lightning.py", "cuda_ddp.py")
PLANTED = sorted(
    path.name
    for path in SCRIPTS.glob("planted_*.py")
    if expected(path.name).get("device") == "cuda"
)


def profile(hotlap: Callable[..., Answer], script: str) -> dict[str, Any]:
    answer = hotlap(*COMMANDS.get(script, (script,)), options=("--seconds", "4"))
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    return answer.result


@pytest.mark.parametrize("script", SHAPES)
def test_a_script_of_this_shape_is_measured_on_the_device(
    script: str, hotlap: Callable[..., Answer]
) -> None:
    result = profile(hotlap, script)
    assert result["problems"] == []
    assert result["step"]["samples"] == float(expected(script)["samples"])
    assert result["environment"]["device"].startswith("cuda")
    phases = [phase["seconds"] for phase in result["phases"].values()]
    measured = sum(seconds for seconds in phases if seconds is not None)
    assert measured == pytest.approx(result["step"]["median_seconds"], rel=0.02)
    assert result["phases"]["transfer"]["seconds"] is not None
    memory = result["memory"]
    assert memory["kind"] == "device"
    assert memory["peak_bytes"] > memory["parameters_bytes"] > 0
    if script == "cuda_graphs.py":  # a graph keeps its memory: none of it comes and goes
        assert memory["activations_bytes"] is None
    else:
        assert memory["activations_bytes"] > 0
    assert memory["optimizer_bytes"] >= 0
    assert result["kernels"]["problem"] is None
    assert result["kernels"]["device_busy_seconds"] > 0
    assert result["usage"]["gpu_busy"] is not None


@pytest.mark.parametrize("script", PLANTED)
def test_a_bottleneck_planted_on_the_device_is_found(
    script: str, hotlap: Callable[..., Answer]
) -> None:
    result = profile(hotlap, script)
    assert result["verdict"]["bottleneck"] == expected(script)["bottleneck"], result["verdict"]


def test_the_line_that_waits_for_the_device_is_named(hotlap: Callable[..., Answer]) -> None:
    result = profile(hotlap, "planted_sync.py")
    finding = next(found for found in result["findings"] if found["rule"] == "host-waits")
    line = (SCRIPTS / "planted_sync.py").read_text().splitlines()[finding["line"] - 1]
    assert ".item()" in line


def test_a_step_captured_in_a_cuda_graph_is_not_disturbed(hotlap: Callable[..., Answer]) -> None:
    answer = hotlap("cuda_whole_graph.py", options=("--seconds", "4"))
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert answer.result["problems"] == []


def test_copies_on_a_stream_of_their_own_take_nothing_of_the_step(
    hotlap: Callable[..., Answer],
) -> None:
    result = profile(hotlap, "cuda_prefetch.py")
    assert result["problems"] == []
    assert result["step"]["samples"] == float(expected("cuda_prefetch.py")["samples"])
    step = result["step"]["median_seconds"]
    seconds = {name: phase["seconds"] or 0.0 for name, phase in result["phases"].items()}
    assert min(seconds.values()) >= -0.02 * step, seconds
    assert seconds["transfer"] < 0.05 * step, seconds


def test_a_long_loss_is_the_forward_passs(hotlap: Callable[..., Answer]) -> None:
    """Its backward pass takes about as long again."""
    result = profile(hotlap, "cuda_loss.py")
    shares = {name: phase["share"] or 0.0 for name, phase in result["phases"].items()}
    assert 0.3 < shares["forward"] < 0.65, shares
    assert 0.3 < shares["backward"] < 0.65, shares
    assert shares["other"] < 0.1, shares


def test_a_trace_has_the_kernels_of_the_device_beside_the_phases(
    hotlap: Callable[..., Answer], tmp_path: Path
) -> None:
    file = tmp_path / "steps.json"
    answer = hotlap("cuda_amp.py", options=("--seconds", "4", "--trace", str(file)))
    assert answer.code == 0, answer.errors
    found = json.loads(file.read_bytes())["traceEvents"]
    assert any(one.get("cat") == "kernel" for one in found)
    assert any(one["name"] == "hotlap::backward" for one in found)
    steps = [one for one in found if one["name"].startswith("ProfilerStep#")]
    assert len({one["name"] for one in steps}) == len(steps) >= 1


def test_memory_of_torchs_other_allocator_is_measured(hotlap: Callable[..., Answer]) -> None:
    other = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    answer = hotlap("cuda_amp.py", options=("--seconds", "4"), **other)
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    assert answer.result["problems"] == []
    memory = answer.result["memory"]
    assert memory["reserved_bytes"] >= memory["peak_bytes"] > memory["parameters_bytes"] > 0
