"""The same verbs from Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripted import SCRIPTS

import hotlap


def test_profile_gives_the_same_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SCRIPTS)
    states: list[dict[str, object]] = []
    profile = hotlap.profile(
        ["plain.py"], seconds=2, out=tmp_path, progress=lambda state: states.append(state)
    )
    assert profile.step.samples == 32
    assert profile.verdict.bottleneck in ("compute", "launch")
    assert hotlap.load(profile.folder) == profile
    assert {state["stage"] for state in states} >= {"start"}
    assert os.getcwd() == str(SCRIPTS)


def test_errors_are_raised_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(SCRIPTS)
    with pytest.raises(hotlap.UsageError, match="is not there"):
        hotlap.profile(["nothere.py"], out=tmp_path)
    with pytest.raises(hotlap.CommandFailed, match="exit code 1") as failed:
        hotlap.profile(["crash_early.py"], out=tmp_path)
    assert "bad learning rate" in failed.value.output
    assert capfd.readouterr() == ("", "")
