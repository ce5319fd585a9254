"""Training that another program starts on the command's behalf: a batch system, a container's."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import handing_over
import pytest
from scripted import SCRIPTS, Answer, alive

Hotlap = Callable[..., Answer]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(SCRIPTS / "checkpointing.py", folder / "train_elsewhere.py")
    (folder / "checkpoint.pt").write_bytes(b"last night")
    return folder


def test_its_saves_are_led_away_its_writes_are_told_and_no_one_elses_load_is_taken_for_its(
    hotlap: Hotlap, project: Path
) -> None:
    name = f"hotlap-{os.getpid()}"
    words = (sys.executable, handing_over.__file__, name, sys.executable)
    with handing_over.daemon(name) as started:
        answer = hotlap(*words, "train_elsewhere.py", cwd=project)
    assert answer.code == 0, answer.errors
    assert answer.result is not None
    ranks = [one["pid"] for one in answer.result["ranks"]]
    assert ranks == started[: len(ranks)]
    assert (project / "checkpoint.pt").read_bytes() == b"last night"
    told = " ".join(answer.errors.split())
    assert told.count("could not be kept apart: another program has started the training") == 1
    ending = answer.result["ending"]
    assert ending["protected"] == []
    assert "checkpoint.pt" in json.dumps(ending["diverted"])
    assert "metrics.json" in ending["written_in_place"]
    rules = [one["rule"] for one in answer.result["findings"]]
    assert "written-in-place" in rules
    assert "busy-machine" not in rules
    assert answer.result["usage"]["cores"] is None, "what was not measured is null"
    assert answer.result["environment"]["cores"] > 0
    assert answer.result["environment"]["host"]
    assert not alive("train_elsewhere.py")
