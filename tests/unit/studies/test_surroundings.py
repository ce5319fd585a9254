"""What there is to work with, without importing torch."""

import sys

import pytest

from hotlap.errors import UsageError
from hotlap.studies import surroundings
from hotlap.studies.surroundings import Surroundings


def test_the_version_of_torch_is_read_from_its_file(monkeypatch, tmp_path):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "version.py").write_text(
        "__version__ = '2.9.1+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert surroundings.torch_here() == ("2.9.1+cu130", "13.0")


def test_without_torch_the_next_move_is_said(monkeypatch):
    monkeypatch.setattr(surroundings.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="Install hotlap into the environment that trains"):
        surroundings.torch_here()


@pytest.mark.parametrize(
    ("asked", "cuda", "gpu", "device"),
    [
        (None, None, None, "cpu"),
        (None, "13.0", None, "cpu"),
        (None, None, "H200", "cpu"),
        (None, "13.0", "H200", "cuda"),
        ("cpu", "13.0", "H200", "cpu"),
        ("cuda", "13.0", "H200", "cuda"),
    ],
)
def test_the_gpu_is_taken_where_torch_can_use_one(asked, cuda, gpu, device):
    assert surroundings.device(asked, Surroundings(torch="2.9", cuda=cuda, gpu=gpu)) == device


@pytest.mark.parametrize(
    ("asked", "cuda", "gpu", "sentence"),
    [
        ("tpu", "13.0", "H200", "one of cpu, cuda"),
        ("cuda", None, "H200", "has no CUDA"),
        ("cuda", "13.0", None, "no NVIDIA GPU"),
    ],
)
def test_a_device_that_is_not_there_is_refused(asked, cuda, gpu, sentence):
    with pytest.raises(UsageError, match=sentence):
        surroundings.device(asked, Surroundings(torch="2.9", cuda=cuda, gpu=gpu))


def test_a_gpu_that_is_not_used_is_not_in_the_description():
    around = Surroundings(torch="2.9", cuda="13.0", gpu="H200", machine={"cores": 16.0})
    assert around.described("cuda")["device_name"] == "H200"
    assert "device_name" not in around.described("cpu")
    assert around.described("cpu")["torch"] == "2.9"
    assert around.cores == 16.0


def test_this_machine_is_known_by_its_parts():
    around = surroundings.here()
    assert around.torch
    assert around.cores > 0
    assert around.machine["python"].startswith("3.")


class ThreeGpus:
    """Of two kinds, by NVML."""

    def __getattr__(self, name):
        return lambda *given: None

    def nvmlDeviceGetCount(self):
        return 3

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}f3a-77"

    def nvmlDeviceGetName(self, handle):
        return ("A100", "H100", "H200")[handle]


@pytest.mark.parametrize(
    ("asked", "count", "name"),
    [
        (None, 3, "A100"),
        ("1,2", 2, "H100"),
        ("2", 1, "H200"),
        ("", 0, None),
        ("-1", 0, None),
        ("0,1,2,3", 3, "A100"),
        ("1,-1,2", 1, "H100"),
        ("GPU-2f3a-77,GPU-0f3a-77", 2, "H200"),
        ("GPU-2f", 1, "H200"),
        ("GPU-9", 0, None),
        ("MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135", 1, "A100"),
        ("NoDevFiles", 0, None),
    ],
)
def test_gpus_that_are_hidden_do_not_count(monkeypatch, asked, count, name):
    monkeypatch.setitem(sys.modules, "pynvml", ThreeGpus())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if asked is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    assert surroundings.gpus() == count
    assert surroundings.gpu_name() == name
