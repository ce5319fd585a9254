"""advise: workers where they pay and fit, by arithmetic."""

import dataclasses
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from hotlap.data import advice as module
from hotlap.data.advice import advise

MACHINE = {"cores": 8, "ram": 64 << 30, "shm": 16 << 30, "cuda": True}
PHOTOS = {"sample_seconds": 8e-3, "batch_size": 64, "sample_bytes": 600_000}
CACHED = {"sample_seconds": 6.4e-6, "batch_size": 512, "sample_bytes": 3072}


def test_cached_samples_are_best_made_without_workers():
    found = advise(step_seconds=0.1, **CACHED, **MACHINE)
    assert (found.workers, found.prefetch_factor, found.pin_memory) == (0, None, False)
    assert "3.28 ms to make" in found.reason
    assert "another process costs 4.76 ms" in found.reason


def test_a_short_step_can_be_worth_a_worker_even_so():
    assert advise(step_seconds=0.012, **CACHED, **MACHINE).workers == 1


def test_workers_make_batches_as_fast_as_the_step_uses_them_and_no_more():
    found = advise(step_seconds=0.25, **PHOTOS, **MACHINE)
    assert (found.workers, found.prefetch_factor, found.pin_memory) == (3, 2, True)
    assert found.reason.startswith("3 workers: a batch takes 512 ms to make and the step 250 ms")
    assert "waits for input" not in found.reason
    assert advise(step_seconds=0.5, **PHOTOS, **MACHINE).workers < 3


def test_where_all_cores_are_not_enough_it_is_said():
    found = advise(step_seconds=0.01, **PHOTOS, **MACHINE)
    assert found.workers == 8
    assert "still waits for input" in found.reason


def test_one_core_has_nothing_to_give_to_a_worker():
    assert advise(step_seconds=0.25, **PHOTOS, **{**MACHINE, "cores": 1}).workers == 0


def test_who_waits_for_storage_can_have_more_workers_than_cores():
    found = advise(step_seconds=0.25, cpu_seconds=0.5e-3, **PHOTOS, **{**MACHINE, "cores": 1})
    assert found.workers > 1
    assert "hotlap.data.Concurrent fetches the samples of a batch at once" in found.reason
    assert "Concurrent" not in advise(step_seconds=0.25, **PHOTOS, **MACHINE).reason


def test_a_small_shared_memory_is_checked_first_and_said():
    found = advise(step_seconds=0.25, **PHOTOS, **{**MACHINE, "shm": 64 << 20})
    assert found.workers == 0
    assert "/dev/shm has room for 64.0 MiB" in found.reason
    assert "bus error" in found.reason
    assert "--shm-size" in found.reason
    tight = advise(step_seconds=0.25, **PHOTOS, **{**MACHINE, "shm": 256 << 20})
    assert (tight.workers, tight.prefetch_factor) == (3, 1)


def test_what_is_pickled_needs_no_shared_memory():
    small = {**MACHINE, "shm": 0}
    assert advise(step_seconds=0.25, pickled=True, **PHOTOS, **small).workers == 3


def test_memory_bounds_the_workers_and_it_is_said():
    found = advise(step_seconds=0.25, **PHOTOS, **{**MACHINE, "ram": 2 << 30})
    assert found.workers == 2
    assert "2.00 GiB are free" in found.reason
    assert advise(step_seconds=0.25, **PHOTOS, **{**MACHINE, "ram": 0}).workers == 0


def test_ranks_on_one_machine_share_it(monkeypatch):
    monkeypatch.setattr(module.machine, "cores", lambda: 8.0)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    room = {name: MACHINE[name] for name in ("ram", "shm", "cuda")}
    assert advise(step_seconds=0.01, **PHOTOS, **room).workers == 2
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert advise(step_seconds=0.01, **PHOTOS, **room).workers == 8


@settings(deadline=None)
@given(
    st.floats(0, 10), st.floats(0, 1), st.integers(1, 4096), st.integers(0, 10**7),
    st.floats(0.5, 256), st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.booleans(),
)  # fmt: skip
def test_whatever_is_advised_fits_the_machine_and_torch(
    step, sample, batch_size, size, cores, ram, shm, pickled
):
    found = advise(
        step_seconds=step, sample_seconds=sample, batch_size=batch_size, sample_bytes=size,
        cores=cores, ram=ram, shm=shm, pickled=pickled, cuda=False,
    )  # fmt: skip
    ahead = found.workers * (found.prefetch_factor or 0) * batch_size * size
    assert pickled or ahead <= shm
    assert ahead <= ram
    assert 0 <= found.workers <= cores + 1
    assert found.reason.endswith(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this machine may have fewer cores
        DataLoader([0], **found.arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"batch_size": wrong} for wrong in (0, 2.5, "8")),
        *({"step_seconds": wrong} for wrong in (-1, float("nan"), float("inf"), "fast")),
        *({"sample_seconds": wrong} for wrong in (-1.0, float("nan"))),
        {"sample_bytes": -1},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        advise(**{"step_seconds": 0.1, **PHOTOS, **wrong}, **MACHINE)


def test_without_being_told_this_machine_is_asked():
    found = advise(step_seconds=0.1, **CACHED)
    assert dataclasses.is_dataclass(found)
    assert found.workers == 0
