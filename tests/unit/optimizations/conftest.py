"""Small training scripts, each in a process of its own with a recipe at work in it."""

import json
import shutil
import textwrap
from types import SimpleNamespace

import pytest

BEGINNING = """
import copy, json, os, pickle, threading, warnings
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
import torch
from hotlap.optimizations import precision_fp16, reading
from hotlap.optimizations.install import install
precision_fp16.DEVICES = ("cuda", "cpu")  # what it does to losses and gradients is the same there
reading.processor_flags = lambda: {{"amx_bf16"}}  # on whatever machine the tests run
training = install(torch, Path("trial"), json.loads({settings!r}))
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

told = {{}}
"""

END = """
Path("told.json").write_text(json.dumps(told))
"""


@pytest.fixture
def train(forked, tmp_path):
    """Runs a script under a recipe; answers what it told, and what was noted of the recipe."""

    def run(recipe, script, **settings):
        shutil.rmtree(tmp_path / "trial", ignore_errors=True)
        given = json.dumps({"recipe": recipe, "seed": 0, **settings})
        script = BEGINNING.format(settings=given) + textwrap.dedent(script) + END
        code = forked(script)
        assert code == 0, (tmp_path / "stderr").read_text()
        noted = list((tmp_path / "trial" / "applied").glob("*.json"))
        return SimpleNamespace(
            told=json.loads((tmp_path / "told.json").read_text()),
            done=json.loads(noted[0].read_text()) if noted else {},
            output=(tmp_path / "stdout").read_text(),
        )

    return run
