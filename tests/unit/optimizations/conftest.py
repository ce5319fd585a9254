"""Small training scripts, each in a process of its own with a recipe at work in it.

Importing torch takes seconds, so one process imports it once and every script runs in a fork of it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

IMPORTED_ONCE = """
import atexit, json, os, sys, traceback
import torch, torch._dynamo, torch.utils.data  # the second comes with an optimizer's first step
print("ready", flush=True)
for line in sys.stdin:
    task = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(task["folder"])
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

BEGINNING = """
import copy, json, os, pickle, threading, warnings
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
import torch
from hotlap.optimizations.install import install
training = install(torch, Path("trial"), json.loads({settings!r}))
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

told = {{}}
"""

END = """
Path("told.json").write_text(json.dumps(told))
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
def train(torch_imported, tmp_path):
    """Runs a script under a recipe; answers what it told, and what was noted of the recipe."""

    def run(recipe, script, **settings):
        shutil.rmtree(tmp_path / "trial", ignore_errors=True)
        given = json.dumps({"recipe": recipe, "seed": 0, **settings})
        code = BEGINNING.format(settings=given) + textwrap.dedent(script) + END
        task = json.dumps({"folder": str(tmp_path), "code": code})
        torch_imported.stdin.write(task + "\n")
        torch_imported.stdin.flush()
        code = int(torch_imported.stdout.readline())
        assert code == 0, (tmp_path / "stderr").read_text()
        noted = list((tmp_path / "trial" / "applied").glob("*.json"))
        return SimpleNamespace(
            told=json.loads((tmp_path / "told.json").read_text()),
            done=json.loads(noted[0].read_text()) if noted else {},
            output=(tmp_path / "stdout").read_text(),
        )

    return run
