import json
import os
from itertools import pairwise
from pathlib import Path

import numpy
import pytest
import torch

from hotlap.probes import writing


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_each_kind_of_file_has_its_folder_and_is_named_by_process(tmp_path):
    writing.record(tmp_path, 7, {"steps": 1})
    writing.progress(tmp_path, 7, {"stage": "bare"})
    writing.seen(tmp_path, 8, {"torch": "2.4"})
    assert names(tmp_path) == ["progress/7.json", "records/7.json", "seen/8.json"]
    assert json.loads((tmp_path / "records/7.json").read_text()) == {"steps": 1}


def test_writing_again_replaces_the_file(tmp_path):
    writing.record(tmp_path, 7, {"steps": 1, "long": "x" * 1000})
    writing.record(tmp_path, 7, {"steps": 2})
    assert json.loads((tmp_path / "records/7.json").read_text()) == {"steps": 2}


def test_the_file_appears_whole_by_being_renamed(tmp_path, monkeypatch):
    writing.record(tmp_path, 7, {"steps": 1})
    target = tmp_path / "records/7.json"
    seen = []
    plain = Path.replace

    def replace(self, other):
        assert Path(other) == target
        seen.append((json.loads(self.read_text()), json.loads(target.read_text())))
        return plain(self, other)

    monkeypatch.setattr(Path, "replace", replace)
    writing.record(tmp_path, 7, {"steps": 2})
    assert seen == [({"steps": 2}, {"steps": 1})]


def test_a_write_that_fails_half_way_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    writing.record(tmp_path, 7, {"steps": 1})

    def full(self, text):
        with open(self, "w") as file:
            file.write(text[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    writing.record(tmp_path, 7, {"steps": 2})
    assert names(tmp_path) == ["records/7.json"]
    assert json.loads((tmp_path / "records/7.json").read_bytes()) == {"steps": 1}


@pytest.mark.parametrize("problem", [PermissionError(13, "no"), OSError(30, "read-only")])
def test_a_folder_that_cannot_be_written_raises_nothing(tmp_path, monkeypatch, problem):
    def refuse(*args, **kwargs):
        raise problem

    monkeypatch.setattr(Path, "mkdir", refuse)
    writing.record(tmp_path / "new", 7, {"steps": 1})
    assert names(tmp_path) == []


def test_the_temporary_name_is_never_taken_for_a_record(tmp_path, monkeypatch):
    used = []
    monkeypatch.setattr(Path, "replace", lambda self, other: used.append(self))
    writing.record(tmp_path, 7, {})
    (temporary,) = used
    assert temporary.parent == tmp_path / "records"
    assert not temporary.match("*.json")
    assert str(os.getpid()) in temporary.name


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (numpy.int64(3), 3),
        (numpy.float32(0.5), 0.5),
        (numpy.bool_(True), True),
        (torch.tensor(2.5), 2.5),
        (torch.tensor([1, 2]), "tensor([1, 2])"),
        (Path("/data"), "/data"),
    ],
)
def test_what_a_script_passed_for_a_plain_number_is_written_as_one(tmp_path, value, written):
    writing.record(tmp_path, 7, {"workers": value})
    assert json.loads((tmp_path / "records/7.json").read_text()) == {"workers": written}


class Hostile:
    def __str__(self):
        raise ValueError("no name")


def endless():
    inner = {}
    inner["again"] = inner
    return inner


def deep():
    inner = []
    for _ in range(100_000):
        inner = [inner]
    return {"deep": inner}


@pytest.mark.parametrize("content", [{("a", "b"): 1}, {"x": Hostile()}, endless(), deep()])
def test_what_cannot_be_written_leaves_the_old_file_and_raises_nothing(tmp_path, content):
    writing.record(tmp_path, 7, {"steps": 1})
    writing.record(tmp_path, 7, content)
    assert names(tmp_path) == ["records/7.json"]
    assert json.loads((tmp_path / "records/7.json").read_text()) == {"steps": 1}


def test_a_loss_that_is_no_number_does_not_cost_the_record(tmp_path):
    writing.record(tmp_path, 7, {"losses": [float("nan"), 1.0]})
    assert json.loads((tmp_path / "records/7.json").read_text())["losses"][1] == 1.0


@pytest.mark.parametrize("write", [writing.record, writing.progress, writing.seen])
def test_a_file_where_the_trials_folder_should_be_raises_nothing(tmp_path, write):
    (tmp_path / "file").write_text("")
    write(tmp_path / "file", 7, {"steps": 1})
    assert names(tmp_path) == ["file"]


def test_tasks_of_a_cluster_have_numbers_of_their_own_whatever_their_pids(monkeypatch):
    most = (1 << 22) - 1
    tasks = [range(at := writing.first(task), at + most + 1) for task in ("0", "1", "7")]
    assert [one[0] for one in tasks] == sorted({one[0] for one in tasks})
    assert all(a[-1] < b[0] for a, b in pairwise(tasks))
    assert writing.first(None) == writing.first("what") == 0
    before = writing.number()
    monkeypatch.setenv("SLURM_PROCID", "9")
    assert writing.number() == before, "a script that changes its environment is the same"
