"""Traces: the right one is found, and it is brought whole or not at all."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest

from hotlap.errors import RecordError
from hotlap.records import Rank
from hotlap.trials import traces
from hotlap.trials.folder import TrialFolder


def trial(path: Path, *pids: int) -> TrialFolder:
    folder = TrialFolder(path)
    folder.traces.mkdir(parents=True)
    for pid in pids:
        (folder.traces / f"{pid}.json").write_text(str(pid))
    return folder


def rank(number: int, pid: int) -> Rank:
    return Rank(rank=number, pid=pid, steps=1, median_seconds=1.0, own_seconds=None)


def test_the_first_ranks_comes_first_whatever_its_number(tmp_path: Path) -> None:
    folder = trial(tmp_path / "a", 7, 9)
    found = traces.found([folder], [rank(0, 9), rank(1, 7)])
    assert found == folder.traces / "9.json"
    assert traces.found([folder], [rank(0, 5), rank(1, 7)]) == folder.traces / "7.json"


def test_a_run_without_one_leaves_it_to_the_next(tmp_path: Path) -> None:
    empty, second = trial(tmp_path / "a"), trial(tmp_path / "b", 3)
    assert traces.found([empty, second], []) == second.traces / "3.json"
    assert traces.found([empty], []) is None
    (empty.traces / ".4.json").write_text("unfinished")
    assert traces.found([empty], []) is None


def test_it_is_compressed_where_its_name_says_so(tmp_path: Path) -> None:
    source = tmp_path / "1.json"
    source.write_text("{}")
    for name in ("t.json", "t.json.gz"):
        traces.bring(source, tmp_path / name)
    assert (tmp_path / "t.json").read_text() == "{}"
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == b"{}"


def event(name: str, at: str, *, category: str = "user_annotation") -> str:
    """As torch.profiler writes it."""
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": 7, "tid": 8,\n'
        f'    "ts": {at}, "dur": 4.500,\n    "args": {{}}\n  }}'
    )


def brought(tmp_path: Path, *lines: str) -> dict[str, Any]:
    source, target = tmp_path / "7.json", tmp_path / "t.json"
    source.write_text('{\n  "schemaVersion": 1,\n  "traceEvents": [\n' + ",\n".join(lines) + "\n]}")
    traces.bring(source, target)
    content: dict[str, Any] = json.loads(target.read_text())
    return content


def test_steps_stand_on_a_track_of_their_own_from_mark_to_mark(tmp_path: Path) -> None:
    content = brought(
        tmp_path,
        event("hotlap::step", "4150382524830.912"),
        event("hotlap::step", "4150382524831.000", category="gpu_user_annotation"),
        event("aten::mm", "4150382524900.000", category="cpu_op"),
        event("hotlap::step", "4150382528013.289"),
        event("hotlap::step", "4150382530747.006"),
    )
    added, own = content["traceEvents"][:-5], content["traceEvents"][-5:]
    steps = [one for one in added if one["ph"] == "X"]
    assert [(one["name"], one["ts"], one["dur"]) for one in steps] == [
        ("ProfilerStep#1", 4150382524830.912, 3182.377),
        ("ProfilerStep#2", 4150382528013.289, 2733.717),
    ]
    assert {one["pid"] for one in added} == {7}
    assert {one["tid"] for one in added}.isdisjoint(one["tid"] for one in own)
    assert all(isinstance(one["tid"], int) for one in added), "readers make a number of it"
    assert "steps" in [one["args"]["name"] for one in added if one["name"] == "thread_name"]
    assert content["schemaVersion"] == 1


def test_a_trace_with_no_whole_step_stays_as_it_is(tmp_path: Path) -> None:
    content = brought(tmp_path, event("hotlap::step", "1.0"), event("aten::mm", "2.0"))
    assert [one["name"] for one in content["traceEvents"]] == ["hotlap::step", "aten::mm"]
    (tmp_path / "7.json").write_text("")
    traces.bring(tmp_path / "7.json", tmp_path / "t.json")
    assert (tmp_path / "t.json").read_bytes() == b""


def test_a_link_is_written_through_and_stays(tmp_path: Path) -> None:
    source, real, link = tmp_path / "1.json", tmp_path / "real.json", tmp_path / "link.json"
    source.write_text("new")
    real.write_text("old")
    link.symlink_to(real)
    traces.bring(source, link)
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_an_interrupt_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: object, copy: IO[bytes], size: int) -> None:
        copy.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(traces.shutil, "copyfileobj", interrupted)
    source, target = tmp_path / "1.json", tmp_path / "t.json"
    source.write_text("{}")
    target.write_text("older")
    with pytest.raises(KeyboardInterrupt):
        traces.bring(source, target)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["1.json", "t.json"]
    assert target.read_text() == "older"


def test_what_cannot_be_written_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "1.json"
    source.write_text("{}")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RecordError, match="cannot be written"):
        traces.bring(source, tmp_path / "folder")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["1.json", "folder"]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    source, pipe = tmp_path / "1.json", tmp_path / "pipe"
    source.write_text("{}")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        traces.bring(source, pipe)
        assert os.read(reader, 100) == b"{}"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_link_to_another_file_system_is_written_through(tmp_path: Path) -> None:
    source, link = tmp_path / "1.json", tmp_path / "link.json"
    source.write_text("new")
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    with tempfile.TemporaryDirectory(dir=elsewhere) as folder:
        link.symlink_to(Path(folder) / "real.json")
        traces.bring(source, link)
        assert link.is_symlink()
        assert link.read_text() == "new"
