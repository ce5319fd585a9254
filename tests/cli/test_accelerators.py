"""A device other than a GPU: simulated, so that it is known what each phase takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from scripted import SCRIPTS, Answer

SIMULATED = SCRIPTS.parent / "accelerator"
KERNEL = 1e-3  # of seconds, each: the host issues them much faster
ENOUGH = ("--steps", "60", "--seconds", "4")
pytestmark = pytest.mark.skipif(
    tuple(map(int, version("torch").split(".")[:2])) < (2, 13),
    reason="the device is written for the headers of torch 2.13 and later",
)
PHASES = ("input", "transfer", "forward", "backward", "optimizer", "other")


@pytest.fixture
def profiled(hotlap: Callable[..., Answer], tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """The record of a training on it, and how long each phase takes the device."""

    def profile(*words: str, kernel: float = KERNEL) -> tuple[Any, Any]:
        answer = hotlap(
            *(str(SIMULATED / "train.py"), "--kernel", str(kernel), *words),
            options=(*ENOUGH, "--in-place"),
            cwd=tmp_path,
            PYTHONPATH=str(SIMULATED),
            SIMULATED_BUILD=str(Path(sys.prefix) / "simulated"),
        )
        assert answer.code == 0, answer.errors
        counted = json.loads((tmp_path / "truth.json").read_text())
        return answer.result, {name: number * kernel for name, number in counted.items()}

    return profile


def seconds(record: Any) -> dict[str, float]:
    return {name: record["phases"][name]["seconds"] for name in PHASES}


def test_phases_are_what_the_device_takes_for_them_while_the_host_runs_ahead(
    profiled: Callable[..., tuple[Any, Any]],
) -> None:
    record, truth = profiled()
    found = seconds(record)
    assert record["environment"]["device"] == "sim:0"
    assert record["environment"]["device_name"] == "Simulated 1"
    assert found == pytest.approx({**truth, "input": 0.0, "other": 0.0}, abs=0.25 * KERNEL)
    assert record["step"]["median_seconds"] == pytest.approx(sum(truth.values()), rel=0.01)
    assert record["verdict"]["bottleneck"] == "compute"
    assert "torch.profiler tells nothing of sim devices" in record["verdict"]["sentence"]


def test_memory_is_the_devices_own(profiled: Callable[..., tuple[Any, Any]]) -> None:
    record, _ = profiled()
    memory = record["memory"]
    weights = 4 * (8 * 16 + 16 + 16 * 10 + 10)
    assert memory["kind"] == "device"
    assert memory["parameters_bytes"] == memory["gradients_bytes"] == weights
    assert memory["optimizer_bytes"] == weights
    assert 3 * weights < memory["peak_bytes"] < 5 * weights
    assert 0 < memory["activations_bytes"] < weights


def test_what_is_done_to_a_batch_on_the_device_is_no_transfer(
    profiled: Callable[..., tuple[Any, Any]],
) -> None:
    record, truth = profiled("--convert")
    expected = {**truth, "input": 0.0, "other": 2 * KERNEL}
    assert seconds(record) == pytest.approx(expected, abs=0.25 * KERNEL)


def test_waiting_for_a_batch_counts_only_as_far_as_the_device_runs_dry(
    profiled: Callable[..., tuple[Any, Any]],
) -> None:
    record, truth = profiled("--wait", "0.015")
    assert seconds(record)["input"] < KERNEL
    assert record["step"]["median_seconds"] == pytest.approx(sum(truth.values()), rel=0.05)


def test_a_slow_loader_is_told_by_how_long_the_device_idles(
    profiled: Callable[..., tuple[Any, Any]],
) -> None:
    record, truth = profiled("--wait", "0.06")
    found, busy = seconds(record), sum(truth.values())
    assert record["verdict"]["bottleneck"] == "input"
    assert found["input"] > 0.06 - 1.05 * busy  # it begins to wait while the device is at work
    assert found["input"] < sum(found.values()) - 0.95 * busy
    assert all(found[name] > 0.95 * truth[name] for name in truth)


def test_a_batch_copied_ahead_on_another_stream_takes_no_time_of_the_training(
    profiled: Callable[..., tuple[Any, Any]],
) -> None:
    record, truth = profiled("--ahead", "--wait", "0.015")
    found = seconds(record)
    assert found["input"] + found["transfer"] + found["other"] < KERNEL
    for name in ("forward", "backward", "optimizer"):
        assert found[name] == pytest.approx(truth[name], abs=0.25 * KERNEL)


def test_reading_a_value_is_a_wait_on_its_line(profiled: Callable[..., tuple[Any, Any]]) -> None:
    record, truth = profiled("--read")
    (wait,) = record["waits"]
    assert (wait["what"], wait["per_step"]) == (".item()", 1.0)
    assert 0.5 * sum(truth.values()) < wait["seconds_per_step"]
    assert sum(copy["bytes_per_step"] for copy in record["copies"]) == 4 * (8 * 4 + 8)
