"""What a record has besides steps, phases and ranks: start-up, memory, usage, losses."""

import pytest
from raws import ENDING, LOADER, bare, merged, raw

from hotlap.trials.merging import complete


def test_start_up_is_told_from_the_process_on():
    times = {
        "process": 100.0,
        "import_started": 101.0,
        "imported": 103.0,
        "first_iterator": 104.0,
        "first_batch": 104.5,
        "first_step": 106.0,
    }
    startup = merged(raw(times=times, compile_seconds=1.5)).startup
    assert startup.seconds == 4.0
    assert startup.import_seconds == 2.0
    assert startup.first_batch_seconds == 0.5
    assert startup.first_step_seconds == 6.0
    assert startup.compile_seconds == 1.5


def test_start_up_without_a_loader_lasts_until_the_first_backward_pass():
    times = {"process": 100.0, "first_backward": 103.0, "first_step": 104.0}
    startup = merged(raw(times=times)).startup
    assert startup.seconds == 3.0
    compiling = merged(raw(times=times, compile_seconds=2.0)).startup
    assert (compiling.seconds, compiling.compile_seconds) == (1.0, 2.0), "each second once"
    assert startup.first_batch_seconds is None


def test_the_rest_of_memory_is_what_no_part_explains():
    found = {
        "kind": "process",
        "peak_bytes": 1000,
        "parameters_bytes": 100,
        "gradients_bytes": 100,
        "optimizer_bytes": 200,
        "activations_bytes": None,
    }
    memory = merged(raw(memory=found)).memory
    assert memory.rest_bytes == 600
    assert memory.activations_bytes is None
    assert memory.reserved_bytes is None


def test_parts_beyond_the_peak_leave_no_negative_rest():
    assert merged(raw(memory={"peak_bytes": 10, "parameters_bytes": 20})).memory.rest_bytes == 0


def test_memory_that_was_not_read_is_null():
    memory = merged().memory
    assert (memory.kind, memory.peak_bytes, memory.rest_bytes) == ("process", None, None)
    assert merged(raw(environment={"device": "cuda:0"})).memory.kind == "device"


def sample(time, cores=1.0, gpus=None):
    made = {"time": time, "cores": cores, "other_cores": 0.0, "memory_bytes": 5}
    made["read_bytes_per_second"] = 0.0
    return made if gpus is None else {**made, "gpus": gpus}


def gpu(busy):
    return {
        "busy": busy,
        "memory_bytes": None,
        "clock_hertz": 1e9,
        "throttled": False,
        "foreign_processes": 0,
    }


def test_usage_has_what_a_host_kept_where_samples_tell():
    kept = {**sample(100.5), "other_cores": 1.0, "stolen_cores": 0.75}
    usage = merged(telemetry=[kept, {**kept, "time": 100.6, "stolen_cores": 0.25}]).usage
    assert (usage.other_cores, usage.stolen_cores) == (1.0, 0.5)
    assert merged(telemetry=[sample(100.5)]).usage.stolen_cores is None


def test_usage_is_of_the_time_the_windows_were_open():
    telemetry = [sample(50.0, cores=9.0), sample(100.5, cores=2.0), sample(200.0, cores=9.0)]
    usage = merged(telemetry=telemetry).usage
    assert (usage.cores, usage.samples) == (2.0, 1)
    assert usage.gpu_busy is None


def test_usage_of_no_samples_is_unknown():
    usage = merged().usage
    assert (usage.cores, usage.samples) == (None, 0)


def test_usage_is_of_the_gpu_that_trains():
    on_second = raw(environment={"device": "cuda:1"})
    usage = merged(on_second, telemetry=[sample(100.5, gpus=[gpu(0.1), gpu(0.9)])]).usage
    assert usage.gpu_busy == pytest.approx(0.9)
    assert usage.gpu_memory_bytes is None
    assert usage.gpu_throttled_share == 0.0


def test_the_gpu_that_trains_is_known_by_its_uuid_where_the_numbers_differ():
    gpus = [{**gpu(0.9), "uuid": "GPU-aaaa"}, {**gpu(0.1), "uuid": "GPU-bbbb"}]
    there = [sample(100.5, gpus=gpus)]
    hidden = raw(environment={"device": "cuda:0", "device_uuid": "bbbb"})  # CUDA_VISIBLE_DEVICES=1
    assert merged(hidden, telemetry=there).usage.gpu_busy == pytest.approx(0.1)
    unknown = raw(environment={"device": "cuda:0", "device_uuid": None})
    assert merged(unknown, telemetry=there).usage.gpu_busy == pytest.approx(0.9)


def test_input_cpu_is_the_workers_where_there_are_any():
    assert merged().input_cpu_share == 0.9
    assert merged(raw(loaders=[{**LOADER, "workers": 4}])).input_cpu_share == 0.2
    nothing = {"wait_cpu_share": None, "workers_cpu_share": None}
    assert merged(raw(input_cpu=nothing)).input_cpu_share is None


def test_losses_and_the_ending_are_carried_over():
    record = merged()
    assert record.losses == (2.0, None, 1.0)
    assert record.ending == ENDING
    assert record.loaders[0].dataset == "ImageFolder"


def test_a_second_run_completes_memory_and_kernels_and_nothing_else():
    record = merged()
    second = raw(bare(99.0), memory={"peak_bytes": 7}, kernels={"steps": 1})
    completed = complete(record, [raw(), second])
    assert completed.memory.peak_bytes == 7
    assert completed.kernels.steps == 1
    assert completed.step == record.step
    assert complete(record, [raw()]) == record
    assert complete(record, []) == record
