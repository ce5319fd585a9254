"""Properties are checked on the same examples every time, and leave no files in the checkout."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "hotlap-hypothesis")
settings.register_profile("hotlap", database=None, deadline=None, derandomize=True)
settings.load_profile("hotlap")


@pytest.fixture
def in_python(tmp_path):
    """Runs code in a fresh interpreter, which may patch torch as it likes; answers its output.

    With `fails`, the code has to end with an error nobody caught, and its traceback is answered.
    """

    def run(code: str, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=280,
        )
        assert done.returncode == int(fails), done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    return run


# Importing torch takes seconds: one process does it once, and scripts run in forks of it.
IMPORTED_ONCE = """
import atexit, json, os, sys, traceback, warnings
import torch, torch._dynamo, torch.utils.data  # the second comes with an optimizer's first step
import hotlap.optimizations.install, hotlap.probes.install  # which does nothing by itself
OF_TORCH_ITSELF = "`torch.cpu.amp.autocast", "The epoch parameter in", "Guards may run slower"
for said in OF_TORCH_ITSELF:
    warnings.filterwarnings("ignore", said)
print("ready", flush=True)
for line in sys.stdin:
    task = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(task["folder"])
        sys.argv[1:] = task["arguments"]
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = 1
        try:
            exec(compile(task["code"], "train.py", "exec"), globals())
            code = 0
        except BaseException:
            traceback.print_exc()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)  # taking down the interpreter would take longer than the script
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="session")
def torch_imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    settings = {
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", IMPORTED_ONCE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **settings},
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def forked(torch_imported, tmp_path):
    """Runs code where torch is imported already; answers its exit code.

    What it prints is in the files stdout and stderr of its folder.
    """

    def run(code: str, *arguments: str) -> int:
        task = {"folder": str(tmp_path), "code": code, "arguments": arguments}
        torch_imported.stdin.write(json.dumps(task) + "\n")
        torch_imported.stdin.flush()
        return int(torch_imported.stdout.readline())

    return run
