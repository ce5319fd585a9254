"""The way in: help by any name, misplaced options, and Ctrl-C before there is anything to stop."""

import os
import subprocess
import sys


def hotlap(*words, cwd=None, path=None):
    return subprocess.run(
        [sys.executable, "-m", "hotlap", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **({"PYTHONPATH": str(path)} if path else {})},
        check=False,
    )


def test_help_is_a_word_that_people_try():
    assert hotlap("help").stdout == hotlap("--help").stdout
    assert hotlap("help", "run").stdout == hotlap("run", "--help").stdout


def test_ctrl_c_while_it_is_imported_is_no_error(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    )
    done = hotlap("--help", path=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_option_behind_the_command_is_told_before_it_runs(tmp_path):
    (tmp_path / "train.py").write_text("import sys; print(sys.argv[1:])")
    done = hotlap("run", "train.py", "--recipe", "best.toml", cwd=tmp_path)
    assert done.stdout == "['--recipe', 'best.toml']\n"
    assert done.stderr.splitlines()[0] == (
        "hotlap: --recipe stands behind train.py, so the script gets it. Options of hotlap stand "
        "before the command: hotlap run --recipe best.toml train.py"
    )
