import sys
from types import SimpleNamespace

import pytest
import torch as real

from hotlap.probes import environment
from hotlap.probes.accelerators import Accelerator
from hotlap.probes.environment import World

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def distributed(rank=None, size=None, *, available=True):
    """What of torch tells ranks; without a rank there is no group."""
    told = {"is_available": lambda: available}
    if available:
        told |= {
            "is_initialized": lambda: rank is not None,
            "get_rank": lambda: rank,
            "get_world_size": lambda: size,
        }
    return SimpleNamespace(distributed=SimpleNamespace(**told))


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("available", [True, False])
def test_without_a_group_a_rank_is_what_the_launcher_says(monkeypatch, name, available):
    monkeypatch.setenv(name, "3")
    found = World().ranks(distributed(available=available))
    assert found.pop(name.lower()) == 3
    assert set(found.values()) == {None}


def test_a_rank_that_is_no_number_is_none(monkeypatch):
    monkeypatch.setenv("RANK", "first")
    assert World().ranks(distributed())["rank"] is None


def test_a_rank_that_no_launcher_started_is_what_its_group_says():
    found = World().ranks(distributed(1, 2))
    assert found == {"rank": 1, "local_rank": None, "world_size": 2}


def test_a_group_is_believed_before_a_launcher(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    assert World().ranks(distributed(1, 2))["rank"] == 1


def test_a_group_that_is_gone_is_still_known():
    world = World()
    told = world.ranks(distributed(1, 2))
    assert world.ranks(distributed()) == told


TORCH = SimpleNamespace(
    __version__="2.4.0", version=SimpleNamespace(cuda=None), get_num_threads=lambda: 4
)


def test_without_a_device_it_is_a_cpu():
    found = environment.describe(TORCH, None)
    assert (found["device"], found["devices"], found["device_name"]) == ("cpu", 0, None)
    assert (found["torch"], found["threads"]) == ("2.4.0", 4)
    assert found["affinity"] >= 1
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_device_is_described_by_torch():
    properties = SimpleNamespace(
        name="H200", total_memory=139 << 30, uuid="GPU-1", major=9, minor=0
    )
    torch = SimpleNamespace(
        **vars(TORCH),
        cuda=SimpleNamespace(get_device_properties=lambda d: properties, device_count=lambda: 8),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 90100)),
    )
    found = environment.describe(torch, Accelerator(torch, real.device("cuda:1")))
    assert (found["device"], found["device_name"], found["devices"]) == ("cuda:1", "H200", 8)
    assert found["device_bytes"] == 139 << 30
    assert found["capability"] == [9, 0]


@pytest.mark.parametrize(
    ("metrics", "seconds"),
    [
        (None, None),
        ({}, None),
        ({"_compile.compile_inner": [1.5, 2.0]}, 3.5),
        ({"_compile.<locals>.compile_inner": [0.5], "create_aot_dispatcher_function": [0.4]}, 0.5),
        ({"entire_frame_compile": [1.0]}, 1.0),
        ({"something else": [1.0]}, None),
    ],
)
def test_compiling_is_what_dynamo_says_it_took(monkeypatch, metrics, seconds):
    module = SimpleNamespace(compilation_time_metrics=metrics)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)
    assert environment.compile_seconds() == seconds


def test_compiling_that_was_never_used_took_no_time_to_tell(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert environment.compile_seconds() is None
