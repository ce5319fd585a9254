"""hotlap compare: finds the runs, writes what is asked for, says what is wrong in a sentence."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import sample_tunings as sample
import typer
from typer.testing import CliRunner, Result

from hotlap import comparisons, records, tunings
from hotlap.api import results
from hotlap.cli import compare
from hotlap.errors import HotlapError


@pytest.fixture
def hotlap(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.callback()(lambda: None)
    compare.register(app)

    def call(*words: object) -> Result:
        return CliRunner().invoke(app, ["compare", *map(str, words)])

    return call


def problem(result: Result) -> str:
    assert isinstance(result.exception, HotlapError), result.output
    assert result.exception.exit_code == 2
    assert result.stdout == ""
    return str(result.exception)


def kept(name: str, profile: records.Profile, at: float) -> Path:
    folder = Path(".hotlap", name)
    folder.mkdir(parents=True)
    records.save(profile, folder / "profile.json")
    os.utime(folder / "profile.json", (at, at))
    return folder


@pytest.fixture
def runs(hotlap) -> tuple[Path, Path]:
    return kept("profile-1", sample.slow_profile(), 100), kept(
        "profile-2", sample.fast_profile(), 200
    )


def sides(result: Result) -> tuple[str, str]:
    found = json.loads(result.stdout)
    return found["before"]["source"], found["after"]["source"]


def test_two_runs_are_compared_and_told(hotlap, runs):
    result = hotlap(*runs)
    assert result.exit_code == 0, result.output
    assert "times as fast" in result.stdout
    assert "profile-1" in result.stdout


def test_without_names_the_two_newest_of_one_kind_are_taken_the_older_first(hotlap, runs):
    newest = kept("profile-3", sample.slow_profile(), 300)
    other = Path(".hotlap", "tune-1")
    other.mkdir()
    tunings.save(sample.tuning(), other / "tuning.json")
    os.utime(other / "tuning.json", (250, 250))
    assert sides(hotlap("--format", "json")) == (str(runs[1]), str(newest))


def test_one_name_is_compared_with_the_newest_other_one(hotlap, runs):
    assert sides(hotlap(runs[0], "--format", "json")) == (str(runs[0]), str(runs[1]))
    assert sides(hotlap(runs[1], "--format", "json")) == (str(runs[1]), str(runs[0]))


def test_a_damaged_run_is_passed_over_unless_it_is_named(hotlap, runs):
    broken = kept("profile-9", sample.slow_profile(), 900)
    (broken / "profile.json").write_text("{")
    assert sides(hotlap("--format", "json")) == (str(runs[0]), str(runs[1]))
    assert "is not JSON" in problem(hotlap(broken, runs[0]))


def test_the_formats_go_where_they_are_asked_to(hotlap, runs, tmp_path):
    result = hotlap("--json", "all.json", "--format", "markdown", "--output", "pr.md", *runs)
    assert result.stdout == "pr.md\n"
    assert Path("pr.md").read_text().startswith("**")
    found = comparisons.decode(Path("all.json").read_bytes())
    assert found.kind == "profile"
    assert hotlap("--output", "plain.txt", *runs).stdout == "plain.txt\n"
    assert found.summary.split(":")[0] in Path("plain.txt").read_text()


def test_what_cannot_be_compared_is_a_sentence(hotlap, runs, tmp_path):
    file = tmp_path / "tuning.json"
    tunings.save(sample.tuning(), file)
    assert "Name two of one kind" in problem(hotlap(runs[0], file))
    assert "There is no run nowhere" in problem(hotlap(runs[0], "nowhere"))
    assert "no other tuning" in problem(hotlap(file))


def test_with_fewer_than_two_runs_it_says_what_to_do(hotlap):
    assert "Name two: hotlap compare BEFORE AFTER" in problem(hotlap())
    kept("profile-1", sample.slow_profile(), 100)
    assert "no two runs of one kind" in problem(hotlap())


def test_an_unwritable_output_is_refused_before_anything_is_read(hotlap, runs):
    for option in ("--json", "--output"):
        assert option in problem(hotlap(option, "no/where.txt", "not", "there"))


def test_what_comes_through_a_pipe_is_read_once(hotlap, runs):
    reading, writing = os.pipe()
    os.write(writing, (runs[0] / "profile.json").read_bytes())
    os.close(writing)
    try:
        pipe = f"/dev/fd/{reading}"
        assert sides(hotlap(pipe, "--format", "json")) == (pipe, str(runs[1]))
    finally:
        os.close(reading)


def test_of_many_runs_only_as_many_are_read_as_are_needed(hotlap, runs, monkeypatch):
    for number in range(3, 20):
        kept(f"profile-{number}", sample.slow_profile(), 100 * number)
    read: list[Path] = []
    load = results.load
    monkeypatch.setattr(results, "load", lambda file: read.append(file) or load(file))
    assert hotlap("--format", "json").exit_code == 0
    assert len(read) == 2


def test_the_help_names_what_may_be_left_out_in_one_pair_of_brackets(hotlap):
    assert "[OPTIONS] [BEFORE] [AFTER]" in hotlap("--help").output


def test_a_run_that_may_not_be_looked_into_is_passed_over(hotlap, runs, monkeypatch):
    locked = kept("profile-9", sample.slow_profile(), 900)
    stat = os.stat

    def refusing(path: object, *args: object, **more: object) -> os.stat_result:
        if isinstance(path, (str, os.PathLike)) and Path(path).parent == locked:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *args, **more)

    monkeypatch.setattr(os, "stat", refusing)
    assert sides(hotlap("--format", "json")) == (str(runs[0]), str(runs[1]))
    assert "no run's folder" in problem(hotlap(locked, runs[0]))
