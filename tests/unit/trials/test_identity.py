"""What a command is besides its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.trials import identity

WORDS = ["train.py", "--config=conf/large.yaml", "--save", "model.pt"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("train.py", "net/model.py", "conf/large.yaml", ".hotlap/x.py", "model.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("train.py", "a file that the command names"),
        ("conf/large.yaml", "a file that the command names"),
        ("net/model.py", "a Python file of the project"),
        ("net/new.py", "a Python file of the project"),
    ],
)
def test_a_change_of_what_is_trained_is_seen(project: Path, name: str, what: str) -> None:
    before = identity.of(WORDS, project)
    assert identity.of(WORDS, project) == before
    (project / name).write_text("time.sleep(0.005)")
    now = identity.of(WORDS, project)
    assert now != before
    assert identity.first_change(before, now) == what


@pytest.mark.parametrize("name", ["model.pt", ".hotlap/x.py", "notes.txt"])
def test_what_training_writes_is_no_change(project: Path, name: str) -> None:
    before = identity.of(WORDS, project)
    (project / name).write_text("other")
    assert identity.of(WORDS, project) == before


def test_another_folder_or_interpreter_is_a_change(project: Path, tmp_path: Path) -> None:
    before = identity.of(["python", "-m", "net.model"], project)
    elsewhere = identity.of(["python", "-m", "net.model"], project / "net")
    assert identity.first_change(before, elsewhere) == "the working directory"
    other = identity.of(["torchrun", "-m", "net.model"], project)
    assert identity.first_change(before, other) == "the interpreter"


def test_a_large_tree_is_looked_at_within_bounds(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "MOST_FOLDERS", 1)
    before = identity.of(WORDS, project)
    (project / "net" / "model.py").write_text("not looked at")
    assert identity.of(WORDS, project) == before


@pytest.mark.parametrize("word", ["\0", "x" * 5000, "~nobody/x.py", ""])
def test_odd_words_are_no_files(project: Path, word: str) -> None:
    assert identity.of(["train.py", word], project)
