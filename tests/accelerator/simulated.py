"""Gives torch a device called `sim`, as a package for a real accelerator does: `import simulated`.

Its kernels take `torch.sim.pace(seconds)` each, on a line of time of its own; what they compute is
computed on the CPU. Compiled once for each torch, into the folder SIMULATED_BUILD names.
"""

import hashlib
import os
import subprocess
import types
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.utils import cpp_extension

SOURCE = Path(__file__).with_name("device.cpp")


def built() -> Path:
    folder = Path(os.environ["SIMULATED_BUILD"])
    version = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    library = folder / f"{version}-{torch.__version__}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{library.name}.{os.getpid()}"
        abi = int(torch.compiled_with_cxx11_abi())
        words = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
        words += [f"-I{path}" for path in cpp_extension.include_paths()]
        words += [f"-L{path}" for path in cpp_extension.library_paths()]
        words += [str(SOURCE), "-lc10", "-ltorch_cpu", "-o", str(part)]
        subprocess.run(words, check=True)
        part.replace(library)
    return library


class Stream:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Stream) and other.number == self.number

    def __ne__(self, other):  # torch.Stream's: False also of what is none
        return isinstance(other, Stream) and other.number != self.number

    def __hash__(self):
        return self.number

    def wait_stream(self, other):
        event = Event()
        event.record(other)
        event.wait(self)


def _number(stream):
    return (_now if stream is None else stream).number


@contextmanager
def stream(one):
    """What is given to the device in here is given to this stream."""
    global _now
    before, _now = _now, one
    _device.use(one.number)
    try:
        yield
    finally:
        _now = before
        _device.use(before.number)


class Event:
    """A moment of the device's time: when all that was given to it before is done."""

    def __init__(self, enable_timing=False):
        self._told = enable_timing
        self.at = None

    def record(self, stream=None):
        self.at = _device.reach(_number(stream))

    def wait(self, stream=None):
        _device.hold(_number(stream), self.at)

    def synchronize(self):
        _device.wait(self.at)

    def elapsed_time(self, other):
        if not self._told:
            raise RuntimeError("made without enable_timing")
        return (other.at - self.at) * 1e-6


def _module():
    module = types.ModuleType("torch.sim")
    module.Event = Event
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.Stream, module.stream = lambda: Stream(1), stream
    module.current_stream = lambda device=None: _now
    module.kernels = lambda: _device.kernels()
    module.pace = lambda seconds: _device.pace(int(seconds * 1e9))
    module.synchronize = lambda device=None: _device.wait(max(map(_device.reach, range(2))))
    module.get_device_properties = lambda device=None: types.SimpleNamespace(
        name="Simulated 1", total_memory=1 << 30
    )
    module.memory_allocated = lambda device=None: _device.allocated()
    module.max_memory_allocated = module.max_memory_reserved = lambda device=None: _device.peak()
    module.reset_peak_memory_stats = lambda device=None: _device.forget_peak()
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16]
    return module


_now = Stream(0)
torch.ops.load_library(built())
_device = torch.ops.simulated
_device.open()
torch.utils.rename_privateuse1_backend("sim")
torch._register_device_module("sim", _module())
torch.utils.generate_methods_for_privateuse1_backend()
