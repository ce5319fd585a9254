"""Cells in fresh processes: what they answer is read, how they fail is told, nothing is left."""

import sys

import psutil
import pytest

from hotlap.answers import Called, Trained
from hotlap.studies.runner import LocalRunner, slug, started
from hotlap.trials.folder import RunFolder

SCRIPT = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[sys.argv.index("--log") + 1])
file.write_text("".join(json.dumps({"epoch": n}) + "\\n" for n in (1, 2)) + "not json\\n")
"""


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.new("study-made-up", out=tmp_path)
    runner = LocalRunner(folder.trial)
    return lambda cell: runner.run(cell, progress=lambda state: None)


def trained(code, **more):
    return Trained(row="a row", words=("python", "-c", code), **more)


def test_a_workload_is_run_to_its_end_and_its_log_is_read(run):
    done = run(trained(SCRIPT))
    assert (done.status, done.reason) == ("measured", "")
    assert done.figures["epochs"] == [{"epoch": 1}, {"epoch": 2}]
    assert done.folder == "001-a-row"
    assert done.seconds > 0


def test_a_function_is_called_with_json_and_answers_json(run):
    done = run(Called(row="b", function="cells:echo", arguments={"value": [1, None, "é"]}))
    assert done.figures["value"] == [1, None, "é"]
    gone = run(Called(row="b", function="cells:nobody"))
    assert gone.status == "failed"
    assert "nobody" in gone.reason


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("raise ValueError('planted')", "failed", "ValueError: planted"),
        ("import sys; sys.exit(7)", "failed", "exit code 7"),
        ("import sys; sys.exit('a folder is no file.')", "failed", "1: a folder is no file."),
        ("raise MemoryError('all of it')", "out of memory", "MemoryError"),
        ("pass", "failed", "it ended without a line in its log"),
    ],
)
def test_a_cell_that_fails_says_why(run, code, status, reason):
    done = run(trained(code))
    assert done.status == status
    assert reason in done.reason


def test_a_cell_that_hangs_is_stopped_with_all_it_started(run):
    code = (
        "import subprocess, sys, time; "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', 'left-by-cell']); "
        "time.sleep(600)"
    )
    done = run(trained(code, limit_seconds=1.0))
    assert (done.status, done.reason) == ("timed out", "not finished after 1 s")
    assert not [
        process
        for process in psutil.process_iter(["cmdline"])
        if "left-by-cell" in (process.info["cmdline"] or [])
    ]


def test_variables_of_a_cell_reach_it(run):
    code = (
        "import json, os, pathlib, sys; "
        "pathlib.Path(sys.argv[-1]).write_text(json.dumps({'n': os.environ['PLANTED']}))"
    )
    done = run(trained(code, variables={"PLANTED": "3"}))
    assert done.figures["epochs"] == [{"n": "3"}]


def test_a_recipe_that_was_not_applied_makes_no_figures_of_its_row(run):
    done = run(trained(SCRIPT, recipe={"channels-last": {}}))
    assert done.status == "failed"
    assert done.reason == (
        "channels-last was not applied: the script never came to where it applies"
    )


def test_python_is_the_interpreter_of_the_study():
    assert started(("python", "-m", "x")) == [sys.executable, "-m", "x"]
    assert started(["torchrun", "x"]) == ["torchrun", "x"]


def test_folders_have_names_a_shell_likes():
    assert slug("batch 4,096 / bf16") == "batch-4-096-bf16"
    assert slug("§") == "cell"
    assert slug("a" * 90) == "a" * 60
