"""Every study for real in its quick form, and a study that is stopped and goes on."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scripted import alive, clean_environment

from hotlap.studies import STUDIES

QUICK_SECONDS = 120  # far more than any takes; each should stay near 10 s on two cores


def words(*more: str) -> list[str]:
    return [sys.executable, "-m", "hotlap", *more]


STOPPED = "workers"  # this one is stopped and goes on; the others are run in one go


@pytest.mark.parametrize("name", [study.NAME for study in STUDIES if study.NAME != STOPPED])
def test_every_study_answers_its_question_quickly(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        words("study", name, "--quick", "--device", "cpu", "--json", str(tmp_path / "answer.json")),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=QUICK_SECONDS,
        env=clean_environment(COLUMNS="160"),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    check_answer(tmp_path, done.stdout)


def check_answer(folder: Path, output: str) -> None:
    answer = json.loads((folder / "answer.json").read_text())
    check_table(answer, output)
    check_reading(answer, output)
    check_files(answer, Path(answer["folder"]))
    assert answer["complete"]
    assert all(cell["figures"] for cell in answer["cells"] if cell["status"] == "measured")
    assert not alive(str(folder))


def check_table(answer: dict[str, Any], output: str) -> None:
    """Every row was measured, is shown, and has numbers that can be."""
    assert len(answer["rows"]) >= 2
    units = {column["name"]: column["unit"] for column in answer["columns"]}
    for row in answer["rows"]:
        assert row["status"] in ("measured", "skipped"), row["reason"]
        assert row["name"][:20] in output
        for name, value in row["values"].items():
            if units.get(name) in ("rate", "bytes", "ratio") and value is not None:
                assert value > 0, (row["name"], name)
            if units.get(name) == "seconds" and value is not None:
                assert value >= 0, (row["name"], name)
        for name, (low, high) in row["intervals"].items():
            assert low <= row["values"][name] <= high, (row["name"], name)
        if row["status"] == "measured":
            assert any(row["values"].get(name) is not None for name in units), row["name"]


def check_reading(answer: dict[str, Any], output: str) -> None:
    """It names the best row, or says that none is proven to be: on this machine either may be."""
    best = [row["name"] for row in answer["rows"] if row["best"]]
    assert all(f"Best: {name}" in answer["reading"] or name[:4] == "and " for name in best)
    assert ("Best: " in answer["reading"]) == bool(best)
    if not best and answer["study"] != "memory":  # whose rows are not better or worse
        assert re.search("no (row|difference)", answer["reading"], re.IGNORECASE)
    assert " ".join(answer["reading"].split()) in " ".join(output.split())


def check_files(answer: dict[str, Any], folder: Path) -> None:
    assert json.loads((folder / "study.json").read_text()) == answer
    marked = (folder / "study.md").read_text().count("(best)")
    assert marked == sum(row["best"] for row in answer["rows"])
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert answer["pictures"]
    assert page.count('type="application/json"') == len(answer["pictures"])
    sheet = subprocess.run(
        words("report", str(folder), "--format", "csv"),
        capture_output=True,
        text=True,
        timeout=200,
        env=clean_environment(),
        check=True,
    )
    rows = list(csv.DictReader(io.StringIO(sheet.stdout)))
    assert [row["row"] for row in rows] == [row["name"] for row in answer["rows"]]


def test_an_interrupted_study_keeps_its_cells_and_goes_on_to_its_answer(tmp_path: Path) -> None:
    command = words("study", STOPPED, "--quick", "--device", "cpu")
    started = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    try:
        deadline = time.monotonic() + 200
        while not list(tmp_path.glob(".hotlap/study-workers-*/study.json")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        output, errors = started.communicate(timeout=200)
    finally:
        started.kill()
        started.communicate()
    assert started.returncode == 130, errors
    assert "1 of 2 cells is kept" in errors
    assert "Only one row was measured: 0 workers" in output
    assert not alive(str(tmp_path))
    resumed = subprocess.run(
        [*command, "--resume", "--json", str(tmp_path / "answer.json")],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=QUICK_SECONDS,
        env=clean_environment(COLUMNS="160"),
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert "1 measured cell is taken from there" in resumed.stderr
    check_answer(tmp_path, resumed.stdout)
    (folder,) = tmp_path.glob(".hotlap/study-workers-*")
    assert sorted(one.name for one in folder.iterdir() if one.is_dir()) == [
        "001-0-workers",
        "002-2-workers",
        "003-2-workers",
    ]
