"""hotlap run: the command is the user's own in every way, and one line says what was applied."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted import SCRIPTS, clean_environment

from hotlap.optimizations import reading

RECIPE = "schema = 1\n\n[threads]\nthreads = 1\n\n[fused-optimizer]\n\n[channels-last]\n"
TRAINING = """
import sys, torch
from torch import nn
print("before", torch.get_num_threads())
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
print("fused", optimizer.param_groups[0].get("fused"))
torch.save(model.state_dict(), "weights.pt")
"""


def run(
    folder: Path, *words: str, stdin: str = "", **extra: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hotlap", "run", *words],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env=clean_environment(**extra),
        check=False,
    )


def test_the_recipe_here_is_applied_and_the_last_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "hotlap.toml").write_text(RECIPE)
    done = run(tmp_path, "--json", "ran.json", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "before 1\nfused True\n"
    assert done.stderr.splitlines() == [
        "hotlap: applied threads, fused-optimizer; not applied: channels-last "
        "(Linear has no 2-d convolutions)."
    ]
    assert (tmp_path / "weights.pt").stat().st_size > 0
    assert not (tmp_path / ".hotlap").exists()
    ran = json.loads((tmp_path / "ran.json").read_text())
    assert ran["applied"]["fused-optimizer"] == "SGD"
    assert ran["code"] == 0


def test_in_a_python_that_is_too_old_training_goes_on_without_the_recipe(tmp_path: Path) -> None:
    old = "import sys\ntype(sys.meta_path[0])._follow.__globals__['_OLDEST'] = (99, 1)\n"
    (tmp_path / "train.py").write_text(old + TRAINING)
    (tmp_path / "hotlap.toml").write_text("schema = 1\n[fused-optimizer]\n")
    done = run(tmp_path, "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("fused None\n")
    assert "not applied: fused-optimizer (the command runs on Python " in done.stderr


def test_without_a_recipe_it_runs_plain(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.stdin.read().upper()); sys.exit(7)")
    done = run(tmp_path, "train.py", stdin="through")
    assert done.returncode == 7
    assert done.stdout == "THROUGH\n"
    assert "no recipe" in done.stderr


def test_its_variables_and_folder_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").write_text("schema = 1\n[threads]\nthreads = 1\n")
    (tmp_path / "train.py").write_text(
        "import os; print(os.getcwd()); print(os.environ.get('PYTHONFAULTHANDLER'))"
    )
    done = run(tmp_path, "train.py")
    assert done.stdout.splitlines() == [str(tmp_path), "None"]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_command_that_dies_of_a_signal_looks_so_from_outside(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "train.py").write_text(f"import os; os.kill(os.getpid(), {int(number)})")
    done = run(tmp_path, "train.py")
    assert done.returncode == -number
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signals_reach_the_command(tmp_path: Path, number: signal.Signals) -> None:
    script = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda n, f: sys.exit(40))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    (tmp_path / "train.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", "run", "train.py"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        start_new_session=True,  # without a terminal, so that nothing else delivers the signal
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=200)
    assert process.returncode == 40


IGNORING = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
sys.argv[0] = "hotlap"
from hotlap import cli
"""


def test_what_nohup_has_ignored_stays_ignored_by_the_command(tmp_path: Path) -> None:
    script = (
        "import signal, sys\n"
        "print(signal.getsignal(signal.SIGHUP).name, flush=True)\n"
        "sys.exit(40 + len(sys.stdin.readline()))\n"
    )
    (tmp_path / "train.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, "-c", IGNORING + "cli.main()", "run", "train.py"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "SIG_IGN\n"
    os.killpg(process.pid, signal.SIGHUP)
    process.communicate("\n", timeout=200)
    assert process.returncode == 41


def test_what_nohup_has_ignored_does_not_end_any_verb(tmp_path: Path) -> None:
    heeds = "signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN"
    asks = f"cli._check_verb = lambda words: sys.exit({heeds})\n"
    done = subprocess.run(
        [sys.executable, "-c", IGNORING + asks + "cli.main()", "tune", "train.py"],
        cwd=tmp_path,
        env=clean_environment(),
        timeout=200,
        check=False,
    )
    assert done.returncode == 0


def test_the_notes_of_a_killed_run_are_removed_by_the_next_one(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "hotlap.toml").write_text(RECIPE)
    (tmp_path / "quick.py").write_text("pass")
    # It takes its time to end: what it is given must not go before it does.
    (tmp_path / "train.py").write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda number, frame: None)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", "run", "train.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(TMPDIR=str(temporary)),
    )
    assert process.stdout is not None
    child = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.wait()
    assert run(tmp_path, "quick.py", TMPDIR=str(temporary)).returncode == 0
    assert len(list(temporary.iterdir())) == 1, "the command still runs"
    signal.pidfd_send_signal(child, signal.SIGKILL)
    process.communicate(timeout=200)  # its end closes the pipe
    assert run(tmp_path, "quick.py", TMPDIR=str(temporary)).returncode == 0
    assert not list(temporary.iterdir())


def test_the_command_does_not_outlive_a_killed_hotlap(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", "run", "train.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=200)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        state = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "Z":
            return
        time.sleep(0.1)
    pytest.fail("it still runs")


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        ("schema = 1\n[chanels-last]\n", "Did you mean channels-last?"),
        ("schema = 9\n", "Upgrade hotlap"),
        ("schema = [", "is not TOML"),
        ("schema = 1\n[compile]\nmode = 'fast'\n", "it is one of default, reduce-overhead"),
    ],
)
def test_a_recipe_that_is_wrong_is_told_before_anything_runs(
    tmp_path: Path, recipe: str, text: str
) -> None:
    (tmp_path / "hotlap.toml").write_text(recipe)
    (tmp_path / "train.py").write_text("print('ran')")
    done = run(tmp_path, "train.py")
    assert done.returncode == 2
    assert done.stdout == ""
    assert text in " ".join(done.stderr.split())


def test_a_recipe_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')")
    done = run(tmp_path, "--recipe", "no.toml", "train.py")
    assert done.returncode == 2
    assert "no.toml is not there" in done.stderr


EVERYTHING = """schema = 1
[threads]
threads = 1
[loader-workers]
workers = 1
[persistent-workers]
[loader-prefetch]
batches = 4
[fused-optimizer]
[zero-grad-none]
[channels-last]
[precision-bf16]
"""
SHAPES = [
    *("accelerate_loop.py", "accumulation.py", "autocast.py", "batch_sampler.py", "evaluation.py"),
    *("gan.py", "iterable_workers.py", "lazy.py", "lbfgs.py", "lightning_loop.py"),
    *("short_epochs.py", "train_override.py", "workers_spawn.py"),
]


@pytest.mark.parametrize("script", SHAPES)
def test_a_long_recipe_works_on_every_shape_of_script(tmp_path: Path, script: str) -> None:
    (tmp_path / "everything.toml").write_text(EVERYTHING)
    words = ("--recipe", "everything.toml", str(SCRIPTS / script), "--steps", "4")
    done = run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("hotlap: applied ")
    able = reading.BF16_FLAGS & reading.processor_flags()
    assert "precision-bf16" in last.partition("not applied")[0 if able else 2]
