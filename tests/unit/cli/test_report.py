"""hotlap report: finds the run, writes what is asked for, and says what is wrong in a sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import sample_tunings as sample
import typer
from typer.testing import CliRunner, Result

from hotlap import records, tunings
from hotlap.cli import report
from hotlap.errors import HotlapError


@pytest.fixture
def hotlap(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.callback()(lambda: None)
    report.register(app)

    def call(*words: object) -> Result:
        return CliRunner().invoke(app, ["report", *map(str, words)])

    return call


def problem(result: Result) -> str:
    """The one sentence the user would see."""
    assert isinstance(result.exception, HotlapError), result.output
    assert result.exception.exit_code == 2
    assert result.stdout == ""
    return str(result.exception)


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / ".hotlap" / "tune-20261115-071306"
    folder.mkdir(parents=True)
    tunings.save(sample.tuning(), folder / "tuning.json")
    return folder


def aged(file: Path, seconds: float) -> None:
    os.utime(file, (seconds, seconds))


def test_the_page_goes_into_the_runs_folder_and_its_path_is_printed(hotlap, run):
    result = hotlap(run)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{run / 'report.html'}\n"
    assert (run / "report.html").read_text().startswith("<!doctype html>")


def test_a_runs_file_is_as_good_as_its_folder(hotlap, run):
    assert hotlap(run / "tuning.json").stdout == f"{run / 'report.html'}\n"


def test_beside_a_file_that_stands_alone_the_page_takes_its_name(hotlap, tmp_path):
    tunings.save(sample.tuning(), tmp_path / "result.json")
    assert hotlap("result.json").stdout == "result.html\n"
    assert (tmp_path / "result.html").is_file()


def test_without_a_run_it_takes_the_newest(hotlap, run):
    older = run.parent / "tune-20261114-000000"
    newer = run.parent / "profile-20261116-000000"
    unfinished = run.parent / "tune-20261117-000000"
    for folder in (older, newer, unfinished):
        folder.mkdir()
    tunings.save(sample.tuning(), older / "tuning.json")
    records.save(sample.profile(), newer / "profile.json")
    aged(older / "tuning.json", 1000)
    aged(run / "tuning.json", 2000)
    aged(newer / "profile.json", 3000)
    assert hotlap().stdout == ".hotlap/profile-20261116-000000/report.html\n"


def test_a_tunings_folder_is_a_tuning_even_with_a_profile_in_it(hotlap, run):
    records.save(sample.profile(), run / "profile.json")
    assert json.loads(hotlap(run, "--format", "json").stdout)["trials"]


def test_output_says_where_to_write(hotlap, run, tmp_path):
    result = hotlap(run, "--output", tmp_path / "page.html")
    assert result.stdout == f"{tmp_path / 'page.html'}\n"
    assert not (run / "report.html").exists()


def test_markdown_and_csv_go_to_the_terminal(hotlap, run):
    assert hotlap(run, "--format", "markdown").stdout.startswith("**2.40× as fast**")
    assert hotlap(run, "--format", "csv").stdout.startswith("trial,")


def test_markdown_goes_to_a_file_where_one_is_named(hotlap, run):
    assert hotlap(run, "--format", "markdown", "--output", "x.md").stdout == "x.md\n"
    assert Path("x.md").read_text(encoding="utf-8").startswith("**2.40× as fast**")


def test_json_is_the_record_itself(hotlap, run):
    shown = hotlap(run, "--format", "json").stdout
    assert tunings.decode(shown.encode()) == sample.tuning()


def test_json_is_written_beside_whatever_else_is_asked_for(hotlap, run):
    assert hotlap(run, "--json", "whole.json").exit_code == 0
    assert tunings.load("whole.json") == sample.tuning()
    assert (run / "report.html").is_file()


def test_a_profile_has_a_page(hotlap, tmp_path):
    records.save(sample.profile(), tmp_path / "profile.json")
    assert hotlap(tmp_path).stdout == f"{tmp_path / 'report.html'}\n"
    assert "hotlap profile" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("format", ["csv", "markdown"])
def test_a_profile_has_no_trials_to_list(hotlap, tmp_path, format):
    records.save(sample.profile(), tmp_path / "profile.json")
    said = problem(hotlap(tmp_path, "--format", format))
    assert "is a profile" in said
    assert "--format html" in said


def test_no_run_at_all_is_told_with_the_next_move(hotlap, tmp_path):
    said = problem(hotlap())
    assert str(tmp_path / ".hotlap") in said
    assert "hotlap tune COMMAND" in said


def test_a_run_that_is_not_there_is_named(hotlap):
    assert "no run nowhere" in problem(hotlap("nowhere"))


def test_a_folder_without_a_result_is_told(hotlap, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "no tuning.json, study.json or profile.json" in problem(hotlap("empty"))


def test_a_folder_of_runs_is_answered_with_one_of_them(hotlap, run):
    assert "such as .hotlap/tune-20261115-071306" in problem(hotlap(".hotlap"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is no result of hotlap"),
        (b"{}", "carries no schema version"),
        (b"[1]", "carries no schema version"),
        (b'{"schema": 99}', "Upgrade hotlap"),
        (b'{"schema": 1}', "does not fit"),
        (b'{"schema": 1, "trials": "x"}', "does not fit"),
        (b'{"schema": 1, "code": 0, "applied": {}}', "holds what a hotlap run applied, not a prof"),
    ],
)
def test_a_file_that_is_no_result_is_told(hotlap, tmp_path, content, words):
    (tmp_path / "x.json").write_bytes(content)
    said = problem(hotlap("x.json"))
    assert words in said
    assert "x.json" in said


def test_an_output_that_cannot_be_written_is_told_first(hotlap, run):
    said = problem(hotlap(run, "--output", "nowhere/page.html"))
    assert said.startswith("--output nowhere/page.html")
    assert problem(hotlap(run, "--json", run)).startswith("--json")


def test_a_format_there_is_not_is_a_usage_error(hotlap, run):
    said = problem(hotlap(run, "--format", "pdf"))
    assert said == "--format is pdf; it is one of html, markdown, json, csv."


def test_help_needs_neither_jinja2_nor_plotly(in_python):
    shown = in_python(
        """
        import sys, typer
        from typer.testing import CliRunner
        from hotlap.cli import report
        from hotlap.reports import html, markdown, csv
        app = typer.Typer()
        app.callback()(lambda: None)
        report.register(app)
        assert CliRunner().invoke(app, ["report", "--help"]).exit_code == 0
        print(sorted({"jinja2", "plotly", "torch", "numpy"} & set(sys.modules)))
        """
    )
    assert shown.strip() == "[]"
