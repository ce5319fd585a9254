"""What a record says to those who ask it."""

from pathlib import Path

import msgspec
import pytest

from hotlap import records
from hotlap.optimizations import reading

SAMPLE = records.load(Path(__file__).parents[1] / "data" / "profile-schema-1.json")
replace = msgspec.structs.replace


def having(**environment):
    return replace(SAMPLE, environment={**SAMPLE.environment, **environment})


@pytest.mark.parametrize(
    ("found", "expected"),
    [([9, 0], (9, 0)), ((7, 5), (7, 5)), (None, (0, 0)), ("9.0", (0, 0)), ([9], (0, 0))],
)
def test_a_capability_is_a_pair_or_nothing(found, expected):
    assert reading.capability(having(capability=found)) == expected


@pytest.mark.parametrize(
    ("device", "kind", "why"),
    [
        ("cpu", "cpu", reading.NO_DEVICE),
        (None, "cpu", reading.NO_DEVICE),
        ("cuda:1", "cuda", None),
        ("xpu:0", "xpu", "torch has it for CUDA, not for xpu"),
    ],
)
def test_what_only_cuda_has_is_refused_elsewhere(device, kind, why):
    record = having(device=device)
    assert (reading.kind(record), reading.only_cuda(record)) == (kind, why)
    assert reading.on_device(record) == (kind != "cpu")


def test_only_gpus_of_cuda_are_told_by_generation():
    assert reading.is_older(having(device="cuda:0", capability=[7, 5]), (8, 0))
    assert not reading.is_older(having(device="cuda:0", capability=[9, 0]), (8, 0))
    assert not reading.is_older(having(device="xpu:0"), (8, 0))


def test_cores_are_whole_and_shared_between_the_ranks():
    assert reading.cores(having(cores=7.5)) == 7
    assert reading.cores(having(cores=16, world_size=4)) == 4
    assert reading.cores(having(cores=0.5)) == 1
    assert reading.cores(having(cores=None, world_size=None)) == 1


def test_a_loader_that_was_only_iterated_did_not_feed_the_training():
    (loader,) = SAMPLE.loaders
    assert reading.loader(SAMPLE) is loader
    assert reading.loader(replace(SAMPLE, loaders=(replace(loader, trained=0),))) is None
    assert reading.loader(replace(SAMPLE, loaders=())) is None


def test_a_script_that_compiles_is_known_by_its_time_or_its_model():
    assert not reading.compiles(SAMPLE)
    startup = replace(SAMPLE.startup, compile_seconds=3.0)
    assert reading.compiles(replace(SAMPLE, startup=startup))
    assert reading.compiles(having(script={"layers": {"OptimizedModule": 1}}))


def test_the_flags_of_the_processor_are_read_from_the_system(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: fpu avx512_bf16 amx_bf16\n\nflags\t\t: fpu\n")
    assert reading.processor_flags(file) == {"fpu", "avx512_bf16", "amx_bf16"}
    file.write_text("processor\t: 0\n")
    assert reading.processor_flags(file) == set()
    assert reading.processor_flags(tmp_path / "missing") == set()
