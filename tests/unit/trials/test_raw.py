"""Reading what watched processes wrote: nothing in it is trusted unseen."""

import json

import pytest
from raws import UNREAD, raw, row, watched, window

from hotlap.trials.raw import read


def test_records_are_read_and_garbage_is_ignored(tmp_path):
    (tmp_path / "1.json").write_text(json.dumps(raw()))
    (tmp_path / "2.json").write_text('{"schema": 1, "steps"')
    (tmp_path / "3.json").write_text("[1, 2]")
    (tmp_path / "4.json").write_text(json.dumps({**raw(), "schema": 2}))
    (tmp_path / "5.json").write_text(json.dumps({**raw(), "steps": 0}))
    (tmp_path / "6.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "7.json").mkdir()
    (tmp_path / ".8.json.99").write_text(json.dumps(raw()))
    assert read(tmp_path) == [raw()]


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": "many"},
        {"steps": None},
        {"steps": True},
        {"pid": "1"},
        {"windows": {}},
        {"windows": [{"stage": "bare"}]},
        {"windows": [window("bare", {"seconds": 1.0})]},
        {"windows": [window("bare", row("long"))]},
        {"windows": [window("bare", row(), wall=(1.0,))]},
        {"windows": [watched(row(phases={"forward": "much"}))]},
        {"loaders": [{"dataset": "ImageFolder"}]},
        {"losses": 3},
        {"losses": ["much"]},
        {"lines": {"forward": [{"file": 3}]}},
        {"waits": [1]},
        {"copies": None},
        {"kernels": {"steps": "three"}},
        {"memory": 5},
        {"optimizers": "SGD"},
        {"models": None},
        {"environment": None},
        {"problems": [1]},
    ],
    ids=str,
)
def test_a_record_in_which_anything_is_of_the_wrong_kind_is_left_out(tmp_path, changes):
    (tmp_path / "1.json").write_text(json.dumps({**raw(), **changes}))
    (tmp_path / "2.json").write_text(json.dumps(raw(pid=2)))
    assert [one["pid"] for one in read(tmp_path)] == [2]


@pytest.mark.parametrize("name", sorted({*raw()} - UNREAD))
def test_a_record_that_lacks_anything_the_merge_reads_is_left_out(tmp_path, name):
    content = raw()
    del content[name]
    (tmp_path / "1.json").write_text(json.dumps(content))
    assert read(tmp_path) == []


def test_a_record_nested_without_end_is_left_out(tmp_path):
    (tmp_path / "1.json").write_text("[" * 100_000)
    assert read(tmp_path) == []


def test_a_folder_that_is_not_there_holds_no_records(tmp_path):
    assert read(tmp_path / "nowhere") == []
