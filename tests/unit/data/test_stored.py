from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.data import stored
from hotlap.data.stored import StoredError


@pytest.fixture
def tensors() -> dict[str, Any]:
    return {
        "images": torch.arange(240, dtype=torch.uint8).view(5, 3, 4, 4),
        "labels": torch.arange(5, dtype=torch.uint8),
        "nothing": torch.empty(0, 7, dtype=torch.uint8),
    }


@pytest.fixture
def path(tmp_path: Path, tensors: dict[str, Any]) -> Path:
    written = tmp_path / "deep" / "some.tensors"
    stored.write(written, tensors, about="a source")
    return written


def test_what_was_written_is_read(path: Path, tensors: dict[str, Any]) -> None:
    read = stored.read(path, tensors)
    assert list(read) == list(tensors)
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)
    assert stored.about(path) == "a source"


def test_only_what_is_asked_for_is_read(path: Path) -> None:
    assert list(stored.read(path, ["labels"])) == ["labels"]


def test_views_are_stored_as_they_look(tmp_path: Path) -> None:
    whole = torch.arange(64, dtype=torch.uint8).view(8, 8)
    stored.write(tmp_path / "it", {"view": whole.t()[2:5, ::2]})
    assert torch.equal(stored.read(tmp_path / "it", ["view"])["view"], whole.t()[2:5, ::2])


def test_nothing_else_is_left_in_the_folder(path: Path) -> None:
    assert list(path.parent.iterdir()) == [path]


def test_there_is_no_pickle_in_it(path: Path) -> None:
    start = path.read_bytes()
    assert start.startswith(b"hotlap-1")
    assert start[32:].startswith(b'{"about": "a source"')


def test_every_damaged_byte_is_noticed(path: Path, tensors: dict[str, Any]) -> None:
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StoredError, match=r"some\.tensors"):
            stored.read(path, tensors)


def test_every_cut_is_noticed(path: Path, tensors: dict[str, Any]) -> None:
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StoredError, match="Delete it"):
            stored.read(path, tensors)


def test_a_tensor_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(StoredError, match="no tensor 'masks'"):
        stored.read(path, ["masks"])


def test_a_file_that_is_not_there_is_no_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        stored.about(tmp_path / "nowhere")


def test_only_uint8_is_stored(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"labels is torch\.int64"):
        stored.write(tmp_path / "it", {"labels": torch.arange(3)})


def test_a_failed_write_leaves_the_file_before(
    path: Path, tensors: dict[str, Any], monkeypatch: Any
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoredError, match="No space left on device"):
        stored.write(path, {"other": torch.zeros(9, dtype=torch.uint8)})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_a_sentence(
    tmp_path: Path, tensors: dict[str, Any]
) -> None:
    (tmp_path / "notes.txt").write_text("a file where a folder is meant")
    place = tmp_path / "notes.txt" / "images"
    with pytest.raises(StoredError, match="images cannot be written: File exists"):
        stored.write(place, tensors)
