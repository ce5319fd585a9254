"""The real tuning: what helps is found and proven, what harms is refused, nothing is touched."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import planted
import pytest
from scripted import SCRIPTS, alive, clean_environment


class Tuned:
    def __init__(self, done: subprocess.CompletedProcess[str], answer: Path) -> None:
        self.code, self.output, self.errors = done.returncode, done.stdout, done.stderr
        self.result: dict[str, Any] = json.loads(answer.read_text()) if answer.exists() else {}

    def row(self, name: str) -> dict[str, Any]:
        found = [trial for trial in self.result["trials"] if trial["name"] == name]
        assert found, [trial["name"] for trial in self.result["trials"]]
        row: dict[str, Any] = found[0]
        return row


def words(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "hotlap", "tune", "--json", str(folder / "answer.json"), *options]


@pytest.fixture
def tune(tmp_path: Path) -> Callable[..., Tuned]:
    def call(
        script: str, *options: str, then: str = "", cwd: Path | None = None, **extra: str
    ) -> Tuned:
        done = subprocess.run(
            [*words(tmp_path, *options), str(SCRIPTS / script), *then.split()],
            cwd=cwd or tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            env=clean_environment(COLUMNS="130", **extra),
            check=False,
        )
        return Tuned(done, tmp_path / "answer.json")

    return call


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".hotlap" not in path.parts
    }


def test_a_loader_that_waits_for_storage_is_found_proven_and_handed_back(
    tune: Callable[..., Tuned], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "checkpoint.pt").write_bytes(b"of last night")
    (home / "training.log").write_text("epoch 89\n")
    before = digest(home)

    # Slow enough that a busy machine cannot hide what workers give: about four times.
    only, slow = ("--only", "loader-workers"), "--wait=0.002"
    tuned = tune("tunable_storage.py", *only, "--budget", "60s", then=slow, cwd=home)
    if tuned.result["winner"] is None:  # it can make proving take longer, and says so
        assert any(word in tuned.result["summary"] for word in ("more", "quiet"))
        assert "--budget" in tuned.result["summary"]
        more = ("--resume", "--budget", "120s")
        tuned = tune("tunable_storage.py", *only, *more, then=slow, cwd=home)

    assert tuned.code == 0, tuned.errors
    winner = tuned.result["winner"]
    assert winner["recipe"]["loader-workers"]["workers"] >= 1
    assert winner["speedup"]["low"] > 1.2
    assert winner["guard"]["status"] == "passed"
    assert winner["parts"][0]["by_hand"].startswith("DataLoader(")
    assert len(tuned.result["baseline_runs"]) >= 2  # those that others disturb count less
    assert "times as fast" in tuned.output
    assert "hotlap run" in tuned.output
    after = digest(home)
    recipe = home / "hotlap.toml"
    assert after.pop("hotlap.toml")
    assert after == before
    run = Path(tuned.result["folder"])
    assert (run / "recipe.toml").read_text() == recipe.read_text()
    assert "[loader-workers]" in recipe.read_text()
    assert (run / "report.html").read_text().startswith("<!doctype html>")

    ran = subprocess.run(
        [sys.executable, "-m", "hotlap", "run", str(SCRIPTS / "tunable_storage.py"), "--steps=3"],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        env=clean_environment(),
        check=False,
    )
    assert ran.returncode == 0
    assert ran.stdout == "done\n"
    assert ran.stderr.splitlines()[-1] == "hotlap: applied loader-workers."

    recipe.write_text("schema = 1\n")
    kept = (run / "tuning.json").read_bytes()
    resume = (*only, "--resume")
    dry = tune("tunable_storage.py", *resume, "--dry-run", then=slow, cwd=home)
    assert dry.code == 0, dry.errors
    assert (run / "tuning.json").read_bytes() == kept, "a dry run is never written over a result"
    again = tune("tunable_storage.py", *resume, "--budget", "5s", then=slow, cwd=home)
    assert "finished runs are taken from there" in again.errors
    assert again.result["winner"]["recipe"] == winner["recipe"], "what is there costs nothing"
    assert recipe.read_text() == "schema = 1\n"
    assert "stays as it is; --force replaces it" in again.errors


def test_what_changes_the_loss_is_refused(tune: Callable[..., Tuned], tmp_path: Path) -> None:
    tuned = tune(
        "loses_precision.py",
        *("--only", "coarse", "--only", "sign-error"),
        **planted.variables(tmp_path, "coarse", "sign-error"),
    )
    assert tuned.code == 0, tuned.errors
    for name in ("coarse", "sign-error"):
        assert tuned.row(name)["status"] == "changed the loss"
        assert tuned.row(name)["guard"]["status"] == "changed"
    assert tuned.result["winner"] is None


COMPARED = ("no difference", "slower", "faster", "unproven")  # the last beside busy neighbours
FAULTS = {
    "ends-early": ("failed", "steps; the command as it is was still training"),
    "fills-the-disk": ("failed", "No space left on device"),
    "hangs": ("timed out", "no step for"),
    "is-killed": ("out of memory", "SIGKILL"),
    "raises": ("failed", "RuntimeError: planted: the first line <b>"),
    "runs-out-of-memory": ("out of memory", "allocate"),
    "segfaults": ("failed", "SIGSEGV"),
    "writes-garbage": ("failed", "cannot be read: something wrote over it"),
}


def test_faults_are_rows_with_reasons_and_leave_nothing_behind(
    tune: Callable[..., Tuned], tmp_path: Path
) -> None:
    names = [*FAULTS, "leaves-children"]
    only = [word for name in names for word in ("--only", name)]
    tuned = tune(
        "tunable_storage.py", *only, "--timeout", "20", **planted.variables(tmp_path, *names)
    )
    assert tuned.code == 0, tuned.errors
    for name, (status, reason) in FAULTS.items():
        assert tuned.row(name)["status"] == status, name
        assert reason in tuned.row(name)["reason"]
        assert Path(tuned.row(name)["log"]).exists()
        assert reason.split(":")[0] in tuned.output
    assert tuned.row("leaves-children")["status"] in COMPARED
    assert not alive("hotlap-test-orphan")
    assert "Traceback" not in tuned.errors
    page = (Path(tuned.result["folder"]) / "report.html").read_text()
    assert "&lt;b&gt;" in page
    assert "the first line <b>" not in page


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*words(tmp_path, *options), str(SCRIPTS / "tunable_storage.py")],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(
                TMPDIR=str(temporary), **planted.variables(tmp_path, "does-nothing")
            ),
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def journal(folder: Path) -> list[str]:
    found = list(folder.glob(".hotlap/tune-*/journal.jsonl"))
    return found[0].read_text().splitlines() if found else []


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def training(folder: Path) -> int:
    """How many of its trials have come to import torch."""
    return len(list(folder.glob(".hotlap/tune-*/*/seen/*.json")))


def test_an_interrupted_and_a_killed_tuning_leave_nothing_running_and_go_on_where_they_were(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    only, temporary = ("--only", "does-nothing"), tmp_path / "temporary"
    process = started(*only)
    wait_for(lambda: len(journal(tmp_path)) >= 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "go on with hotlap tune --resume --only does-nothing" in errors
    assert "tunable_storage.py" in errors.split("--resume")[-1], "the line can be typed as it is"
    assert "Traceback" not in errors
    result = json.loads((tmp_path / "answer.json").read_text())
    assert result["complete"] is False
    assert result["baseline"]["step"]["count"] > 0
    assert not alive(str(tmp_path))
    assert not list(temporary.iterdir())
    finished, before = journal(tmp_path), training(tmp_path)

    killed = started(*only, "--resume")
    wait_for(lambda: training(tmp_path) > before)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    wait_for(lambda: not alive(str(tmp_path)), 30)
    assert list(temporary.iterdir()), "its caches could not be removed"

    resumed = started(*only, "--resume")
    _, errors = resumed.communicate(timeout=200)
    assert resumed.returncode == 0, errors
    assert f"{len(finished)} finished runs are taken from there" in errors
    assert journal(tmp_path)[: len(finished)] == finished
    result = json.loads((tmp_path / "answer.json").read_text())
    assert result["complete"] is True
    row = next(trial for trial in result["trials"] if trial["name"] == "does-nothing")
    assert row["status"] in COMPARED
    assert len(list(tmp_path.glob(".hotlap/tune-*"))) == 1
    assert not list(temporary.iterdir()), "the next one removes them, and its own"


def test_a_tuning_whose_reader_goes_stops_at_once_and_keeps_its_rows(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """`hotlap tune ... | head -3`: the reader is gone long before the budget is."""
    process = started("--only", "does-nothing", "--budget", "1h")
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=200)
    assert process.returncode == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""
    result = json.loads((tmp_path / "answer.json").read_text())
    assert result["complete"] is False
    assert len(result["baseline_runs"]) < 4, "it has not gone on to its end"
    assert not alive(str(tmp_path))


def test_a_dry_run_says_what_would_be_tried_and_why_not_the_rest(
    tune: Callable[..., Tuned], tmp_path: Path
) -> None:
    folder = tmp_path / "readonly"
    folder.mkdir()
    folder.chmod(0o555)
    tuned = tune("tunable_storage.py", "--dry-run", "--out", str(tmp_path / "runs"), cwd=folder)
    assert tuned.code == 0, tuned.errors
    planned = [one for one in tuned.result["trials"] if one["name"].startswith("loader-workers ")]
    assert planned
    assert all("would be tried" in one["reason"] for one in planned)
    assert all(one["reason"].endswith(" of the step") for one in planned)
    assert tuned.row("tf32")["status"] == "not applicable"
    assert tuned.row("tf32")["reason"] == "training runs on the CPU"
    assert "--allow batch-size" in tuned.row("batch-size")["reason"]
    assert tuned.result["winner"] is None
    assert not list(folder.iterdir())


def test_a_dry_run_for_memory_speaks_of_memory_and_of_what_comes_along(
    tune: Callable[..., Tuned],
) -> None:
    options = ("--dry-run", "--goal", "memory", "--only", "memory-budget,compile")
    tuned = tune("tunable_storage.py", *options)
    assert tuned.code == 0, tuned.errors
    row = tuned.row("memory-budget 50")
    assert row["reason"] == "would be tried with compile, could save up to 35 % of the memory"
    assert tuned.row("memory-budget 10")["reason"] == row["reason"]
    assert list(row["recipe"]) == ["memory-budget", "compile"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--only", "chanels-last"), "Did you mean channels-last?"),
        (("--only", "compile, chanels-last"), "Did you mean channels-last?"),
        (("--skip", "nonsense"), "there is no such optimization"),
        (("--budget", "soon"), "say it like 10m, 90s or 1h30m"),
        (("--budget", "0s"), "must be positive"),
        (("--goal", "fame"), "one of speed, memory"),
        (("--steps-planned", "0"), "must be positive"),
        (("--timeout", "-1"), "must be positive"),
        (("--only", "batch-size"), "it takes --allow batch-size as well"),
        (("--only", "compile", "--skip", "compile"), "both name compile"),
    ],
)
def test_a_wrong_request_is_a_sentence_and_leaves_nothing(
    options: tuple[str, ...], text: str, tune: Callable[..., Tuned], tmp_path: Path
) -> None:
    tuned = tune("tunable_storage.py", *options)
    assert tuned.code == 2
    assert text in " ".join(tuned.errors.split())
    assert not (tmp_path / ".hotlap").exists()


def test_a_baseline_that_fails_is_told_with_its_traceback(
    tune: Callable[..., Tuned], tmp_path: Path
) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import torch\nraise RuntimeError('no data today')\n")
    tuned = tune(str(script))
    assert tuned.code == 3
    assert "no data today" in tuned.errors
    assert "failed with exit code 1" in tuned.errors
