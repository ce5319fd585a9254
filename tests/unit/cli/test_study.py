"""hotlap study with a runner that only does arithmetic: table, files, exit codes, going on."""

from __future__ import annotations

import json

import made_up
import msgspec
import pytest
import typer
from made_up import Told
from typer.testing import CliRunner

import hotlap
from hotlap.api import studying
from hotlap.cli import report, study
from hotlap.errors import HotlapError, Interrupted, UsageError
from hotlap.studies import STUDIES, places
from hotlap.studies import study as study_of


@pytest.fixture
def call(tmp_path, monkeypatch):
    """`call(told, "made-up", ...)` runs the verb on a study of the rows a, b and c."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(studying.surroundings, "torch_here", lambda: ("2.13.0", None))
    monkeypatch.setattr(studying.surroundings, "gpu_name", lambda: None)
    plain = studying.named
    chosen = made_up.made(["a", "b", "c"])
    monkeypatch.setattr(
        studying, "named", lambda name: chosen if name == chosen.NAME else plain(name)
    )
    app = typer.Typer()
    app.callback()(lambda: None)
    study.register(app)
    report.register(app)

    def run(told, *words):
        runner = Told(told)
        monkeypatch.setattr(places, "LocalRunner", lambda *given, **more: runner)
        result = CliRunner().invoke(app, [*map(str, words)])
        result.ran = runner.ran
        return result

    return run


def code(result):
    error = result.exception
    return error.exit_code if isinstance(error, HotlapError) else result.exit_code


def test_the_list_names_every_study_with_its_question(call):
    result = call({}, "study", "--list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == len(STUDIES)
    for line, one in zip(lines, STUDIES, strict=True):
        assert line.split()[0] == one.NAME
        assert line.endswith(one.QUESTION)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["wrokers"], "There is no study wrokers. Did you mean workers?"),
        (["zzz"], "There is no study zzz. There are ladder"),
        ([], "Name a study: hotlap study --list"),
        (["made-up", "--device", "tpu"], "--device is tpu"),
        (["made-up", "--device", "cuda"], "has no CUDA"),
        (["made-up", "--data", "nowhere"], "--data nowhere is not there"),
        (["made-up", "--data", "."], "--data . has no images in train/CLASS and test/CLASS"),
        (["made-up", "--data", "/etc/passwd"], "--data /etc/passwd cannot be read as a tar"),
        (["made-up", "--epochs", "0"], "--epochs is 0; it must be positive"),
        (["made-up", "--seeds", "-1"], "--seeds is -1; it must be positive"),
        (["made-up", "--json", "no/such/file"], "the folder"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(call, tmp_path, words, sentence):
    result = call({}, "study", *words)
    assert code(result) == 2
    assert sentence in str(result.exception)
    assert result.ran == []
    assert not list(tmp_path.glob(".hotlap/study-*"))


@pytest.mark.parametrize("given", ["3", 2.5, True])
def test_from_python_a_number_that_is_none_is_said(call, given):
    with pytest.raises(UsageError, match=r"--epochs is .*; it must be a whole number"):
        studying.study("made-up", epochs=given)


@pytest.mark.parametrize("more", [(), ("--quick",)])
def test_an_option_that_is_never_used_is_not_blamed_on_quick(call, tmp_path, more):
    for split in ("train", "test"):
        (tmp_path / split / "cat").mkdir(parents=True)
        (tmp_path / split / "cat" / "1.jpg").write_bytes(b"")
    result = call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up", *more, "--data", ".")
    assert "has no use for --data; it is left out." in result.stderr


def test_a_study_prints_its_table_its_reading_and_its_files(call, tmp_path):
    result = call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up", "--json", "answer.json")
    assert result.exit_code == 0, result.output
    assert "Which one?" in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines() if " s" in line][:1]
    assert "Best: b." in result.stdout
    (folder,) = (tmp_path / ".hotlap").glob("study-made-up-*")
    for name in ("study.json", "study.md", "report.html"):
        assert (folder / name).is_file()
        assert f".hotlap/{folder.name}/{name}" in result.stdout
    saved = json.loads((folder / "study.json").read_text())
    assert saved == json.loads((tmp_path / "answer.json").read_text())
    assert saved["complete"]
    assert saved["machine"]["torch"] == "2.13.0"


def test_rows_that_the_runs_of_others_have_changed_are_printed_again_alone(call):
    chosen = studying.named("made-up")

    def tabulate(setting, results):
        done = sum(bool(results.good(name)) for name in results.rows)
        return [
            study_of.row(name, results, lambda good: {"seconds": good[0].figures["seconds"] * done})
            for name in results.rows
        ]

    title = "What the runs of other rows have changed:"
    plain = call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up").stdout
    assert title not in plain
    assert plain.count("took") == 1
    chosen.tabulate = tabulate
    first, again = call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up").stdout.split(title)
    assert [line.split()[1] for line in first.splitlines() if line.startswith("  a ")] == ["2.00"]
    table = [line.split()[:2] for line in again.splitlines() if line[2:4] in ("a ", "b ", "c ")]
    assert table == [["a", "6.00"], ["b", "3.00"]]
    assert again.count("took") == 1
    assert "With all runs" not in first + again


def test_a_table_that_was_cut_off_names_no_row_that_was_not_run(call):
    result = call({"a": 2.0, "b": Interrupted}, "study", "made-up", "--quick")
    assert "With all runs" not in result.stdout


def test_a_row_that_was_cut_off_before_its_last_run_is_shown_in_the_table(call):
    studying.named("made-up").plan = made_up.planned(["a", "b"], runs=2)
    result = call({"a": Interrupted, "b": 2.0}, "study", "made-up")
    assert result.ran == ["b", "a"]
    assert result.stdout.count("took") == 1
    assert "  b  " in result.stdout.partition("took")[2]
    assert "runs of other rows" not in result.stdout


def test_a_study_that_was_cut_off_has_not_had_all_its_runs(call):
    """Also where every row has some."""
    chosen = studying.named("made-up")

    def tabulate(setting, results):
        done = [done for name in results.rows for done in results.good(name)]
        made = [study_of.row(name, results, lambda good: {"seconds": len(done)}) for name in "ab"]
        return [msgspec.structs.replace(row, runs=2) for row in made]

    chosen.tabulate = tabulate
    result = call({"a": 2.0, "b": 1.0, "c": Interrupted}, "study", "made-up")
    assert "With all runs so far:" in result.stdout


def test_a_failing_cell_is_a_row_and_the_study_ends_well(call):
    result = call({"a": "planted failure", "b": 1.0, "c": 3.0}, "study", "made-up")
    assert result.exit_code == 0
    assert "planted failure" in result.stdout
    assert "Best: b. Without figures: a (failed)." in result.stdout


def test_where_every_cell_fails_nothing_was_measured(call, tmp_path):
    result = call(dict.fromkeys("abc", "planted failure"), "study", "made-up")
    assert code(result) == 4
    assert "Nothing was measured: planted failure." in result.stdout
    assert list(tmp_path.glob(".hotlap/study-made-up-*/report.html"))


def test_after_an_interruption_the_rest_is_run_with_resume(call, tmp_path):
    first = call({"a": 2.0, "b": Interrupted}, "study", "made-up", "--quick", "--json", "one.json")
    assert code(first) == 130
    assert "1 of 3 cells is kept" in str(first.exception)
    assert "Best: a." in first.stdout
    assert not json.loads((tmp_path / "one.json").read_text())["complete"]
    again = call({"b": 1.0, "c": 3.0}, "study", "made-up", "--quick", "--resume")
    assert again.exit_code == 0, again.output
    assert again.ran == ["b", "c"]
    assert "1 measured cell is taken from there" in again.stderr
    assert "Best: b." in again.stdout
    assert len(list(tmp_path.glob(".hotlap/study-made-up-*"))) == 1


def test_what_another_torch_has_measured_is_not_gone_on_with(call, tmp_path, monkeypatch):
    call({"a": 2.0, "b": Interrupted}, "study", "made-up", "--quick")
    monkeypatch.setattr(studying.surroundings, "torch_here", lambda: ("2.14.0", None))
    again = call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up", "--quick", "--resume")
    assert again.ran == ["a", "b", "c"]
    assert "was measured with torch 2.13.0, and now it is 2.14.0" in again.stderr
    assert len(list(tmp_path.glob(".hotlap/study-made-up-*"))) == 2


@pytest.mark.parametrize("content", ['{"schema": 99, "study": "made-up"}', '{"sche', ""])
def test_a_result_that_cannot_be_read_is_left_as_it_is(call, tmp_path, content):
    call({"a": 2.0, "b": Interrupted}, "study", "made-up", "--quick")
    (file,) = tmp_path.glob(".hotlap/study-made-up-*/study.json")
    file.write_text(content)
    again = call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up", "--quick", "--resume")
    assert again.ran == ["a", "b", "c"]
    assert "cannot be gone on with" in again.stderr
    assert file.read_text() == content
    assert len(list(tmp_path.glob(".hotlap/study-made-up-*"))) == 2


def test_a_study_that_still_runs_is_not_gone_on_with_by_another(call, tmp_path):
    refused = []

    class Beside(Told):
        def run(self, cell, *, progress):
            with pytest.raises(UsageError, match="Another hotlap is at work") as found:
                studying.study("made-up", resume=True, runner=Told({}))
            refused.append(found.value)
            return super().run(cell, progress=progress)

    studying.study("made-up", runner=Beside({"a": 2.0, "b": 1.0, "c": 3.0}))
    assert len(refused) == 3
    after = studying.study("made-up", resume=True, runner=Told({}))
    assert after.best.name == "b"


def test_other_options_are_another_study_to_go_on_with(call, tmp_path):
    call({"a": 2.0, "b": Interrupted}, "study", "made-up", "--quick")
    other = call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up", "--epochs", 3, "--resume")
    assert other.ran == ["a", "b", "c"]
    assert "There is no study made-up" in other.stderr


@pytest.mark.parametrize("format", ["html", "markdown", "json", "csv"])
def test_the_report_of_a_study_can_be_written_again(call, tmp_path, format):
    call({"a": 2.0, "b": 1.0, "c": 3.0}, "study", "made-up")
    result = call({}, "report", "--format", format, "--output", "again")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "again").read_text()
    assert "b" in text
    (folder,) = (tmp_path / ".hotlap").glob("study-made-up-*")
    name = {"html": "report.html", "markdown": "study.md", "json": "study.json"}.get(format)
    assert name is None or (folder / name).read_text() == text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--jobs", "2"), "it goes with --slurm"),
        (("--slurm", "", "--jobs", "0"), "--jobs is 0; it must be positive"),
        (("--slurm", "--comment='open"), "cannot be read: No closing quotation"),
        (("--slurm", "--array=1-4"), "--slurm has --array=1-4"),
    ],
)
def test_wrong_requests_of_a_cluster_are_refused_before_anything_runs(call, options, said):
    result = call({}, "study", "made-up", *options)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)
    assert result.ran == []


def test_python_gets_the_answer(call, tmp_path):
    call({}, "study", "--list")
    told = Told({"a": 2.0, "b": 1.0, "c": 3.0})
    rows = []
    found = hotlap.study("made-up", quick=True, runner=told, out=tmp_path / "out", tell=rows.append)
    assert isinstance(found, hotlap.Answer)
    assert found.best.name == "b"
    assert [row.name for row in rows] == ["a", "b", "c"]
    assert found.options == {"quick": True, "device": "cpu"}
