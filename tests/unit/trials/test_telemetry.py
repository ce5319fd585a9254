import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hotlap.trials.telemetry import Gpu, Telemetry


class Nvml:
    """Enough of pynvml; answers may be errors."""

    def __init__(self, **answers):
        plain = {
            "UtilizationRates": SimpleNamespace(gpu=75),
            "MemoryInfo": SimpleNamespace(used=1 << 30),
            "ClockInfo": 1980,
            "PowerUsage": 350_000,
            "CurrentClocksThrottleReasons": 0x0,
            "ComputeRunningProcesses": [SimpleNamespace(pid=7), SimpleNamespace(pid=8)],
        }
        for name, answer in {**plain, **answers}.items():
            setattr(self, "nvmlDeviceGet" + name, self._answering(answer))

    def _answering(self, answer):
        def ask(*args):
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask


def read(pids=frozenset(), **answers):
    (found,) = Gpu(Nvml(**answers), ["handle"]).read(set(pids))
    return found


def test_a_gpu_is_read_in_si_units():
    found = read()
    assert found["busy"] == 0.75
    assert found["memory_bytes"] == 1 << 30
    assert found["clock_hertz"] == pytest.approx(1.98e9)
    assert found["watts"] == 350
    assert found["throttled"] is False


def test_processes_that_are_not_the_commands_are_foreign():
    assert read({7})["foreign_processes"] == 1
    assert read({7, 8})["foreign_processes"] == 0


def test_processes_of_a_card_that_numbers_them_otherwise_are_unknown():
    assert read({3})["foreign_processes"] is None
    assert read({3}, ComputeRunningProcesses=[])["foreign_processes"] == 0


@pytest.mark.parametrize("uuid", ["GPU-5f3a", b"GPU-5f3a"])
def test_a_card_is_known_by_its_uuid(uuid):
    assert read(UUID=uuid)["uuid"] == "GPU-5f3a"


@pytest.mark.parametrize(("reason", "throttled"), [(0x1, False), (0x4, False), (0x40, True)])
def test_idle_and_power_caps_are_no_throttling_but_heat_is(reason, throttled):
    assert read(CurrentClocksThrottleReasons=reason)["throttled"] is throttled


def test_a_question_the_card_does_not_answer_is_none_and_the_others_stand():
    found = read(PowerUsage=RuntimeError("not supported"))
    assert found["watts"] is None
    assert found["busy"] == 0.75


def test_shutting_down_a_driver_that_is_gone_raises_nothing():
    assert Gpu(SimpleNamespace(), []).close() is None


class Machine:
    """Three GPUs, of which the last works."""

    def __getattr__(self, name):
        return lambda *given: None

    def nvmlDeviceGetCount(self):
        return 3

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=50 * handle)


@pytest.mark.parametrize(
    ("asked", "busy"), [(None, [0, 0.5, 1]), ("2", [1, 0, 0.5]), ("GPU-1,GPU-2", [0.5, 1, 0])]
)
def test_gpus_that_cuda_shows_stand_before_the_others(monkeypatch, asked, busy):
    monkeypatch.setitem(sys.modules, "pynvml", Machine())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if asked is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    assert [one["busy"] for one in Gpu.open().read(set())] == busy


def test_a_card_without_an_id_is_read_all_the_same(monkeypatch):
    class Nameless(Machine):
        def nvmlDeviceGetUUID(self, handle):
            raise RuntimeError("not supported")

    monkeypatch.setitem(sys.modules, "pynvml", Nameless())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = Gpu.open()
    assert found.count == 1
    assert [one["busy"] for one in found.read(set())] == [0.5, 0, 1]


def test_a_sample_of_a_process_is_its_own_burning_since_the_last():
    telemetry = Telemetry(os.getpid(), gpu=Gpu(Nvml(), ["handle"]))
    first = telemetry._sample(1.0)
    assert first["cores"] == 0.0  # nothing to compare with yet
    assert first["memory_bytes"] > 1 << 20
    assert first["gpus"][0]["busy"] == 0.75
    assert telemetry._burned is not None
    telemetry._burned -= 2.0
    assert telemetry._sample(1.0)["cores"] >= 2.0


@pytest.mark.parametrize(
    ("steal", "stolen"),
    [((5.0, 6.5), 0.75), ((6.5, 5.0), 0.0), ((5.0, 99.0), 1.0), ((None, None), None)],
)
def test_what_the_host_of_a_virtual_machine_keeps_is_part_of_what_others_burn(
    monkeypatch, steal, stolen
):
    told = iter(steal)

    def times():
        return SimpleNamespace() if steal[0] is None else SimpleNamespace(steal=next(told))

    monkeypatch.setattr("psutil.cpu_times", times)
    telemetry = Telemetry(os.getpid(), gpu=Gpu(Nvml(), []))
    assert telemetry._stolen_since(2.0, most=1.0) is None  # nothing to compare with yet
    assert telemetry._stolen_since(2.0, most=1.0) == stolen


def test_a_sample_has_what_the_host_kept_since_the_last(monkeypatch):
    told = iter((1.0, 1.5))
    monkeypatch.setattr("hotlap.trials.telemetry.stolen_seconds", lambda: next(told))
    monkeypatch.setattr("psutil.cpu_percent", lambda: 100.0)
    telemetry = Telemetry(os.getpid(), gpu=Gpu(Nvml(), []))
    assert telemetry._sample(1.0)["stolen_cores"] is None
    assert telemetry._sample(1.0)["stolen_cores"] == 0.5


def test_a_process_that_is_gone_gives_no_processes():
    telemetry = Telemetry(2**22 + 1, gpu=Gpu(Nvml(), []))
    assert telemetry._processes() == []


def test_what_ended_children_burned_belongs_to_the_command() -> None:
    code = "x = 0\nwhile x < 20_000_000: x += 1"
    parent = (
        "import subprocess, sys, time\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"subprocess.run([sys.executable, '-c', {code!r}])\n"
        "print('done', flush=True); sys.stdin.readline()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        telemetry = Telemetry(process.pid, gpu=Gpu(Nvml(), []))
        telemetry._sample(1.0)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"  # its child has come and gone in between
        assert telemetry._sample(1.0)["cores"] > 0.1
    finally:
        process.kill()
        process.communicate()
