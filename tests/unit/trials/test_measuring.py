"""From a trial's folder to what a comparison needs, and to a reason where there is nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from raws import LOADER, merged, raw

from hotlap.recipes import Recipe
from hotlap.settings import Limits
from hotlap.trials import measuring
from hotlap.trials.folder import TrialFolder
from hotlap.trials.measuring import Measured
from hotlap.trials.runner import Outcome
from hotlap.tunings import FAILED, Run


@pytest.fixture
def folder(tmp_path: Path) -> TrialFolder:
    found = TrialFolder(tmp_path / "run" / "trial")
    found.create()
    return found


def ended(**outcome: Any) -> Measured:
    """A trial in which no step was measured."""
    return Measured(
        outcome=Outcome(seconds=300.0, idle=9.0, **outcome),
        record=None,
        raws=[],
        applied={},
        refused={},
    )


CUDAS = "CUDA error: out of memory"
CUBLAS = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


def nothing(folder: TrialFolder, output: str = "", **outcome: Any) -> Any:
    folder.output.write_text(output)
    return measuring.as_run(ended(**outcome), folder, cold=False)


@pytest.mark.parametrize(
    ("output", "outcome", "status", "reason"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", {"code": 1}, "out of memory", "CUDA"),
        ("RuntimeError: you can't allocate memory", {"code": 1}, "out of memory", "allocate"),
        (f"torch.AcceleratorError: {CUDAS}\nSearch for", {"code": 1}, "out of memory", CUDAS),
        (f"RuntimeError: {CUBLAS}", {"code": 1}, "out of memory", CUBLAS),
        ("", {"signal": 9}, "out of memory", "SIGKILL"),
        ("", {"signal": 4}, "failed", "killed by signal 4 (SIGILL)"),
        ("", {"signal": 7}, "failed", "SIGBUS"),
        ("", {"signal": 2}, "failed", "killed by signal 2 (SIGINT)"),
        ("Traceback\nValueError: bad shape\nmore", {"code": 1}, "failed", "ValueError: bad shape"),
        ("loading\nno images in x.", {"code": 3}, "failed", "exit code 3: no images in x."),
        ("", {"stopped": "timeout"}, "timed out", "no step for 9 s"),
        ("", {"stopped": "stalled"}, "timed out", "no step for 9 s"),
        ("", {"code": 0}, "failed", "no training step was measured"),
    ],
)
def test_trouble_has_a_status_and_a_reason(
    folder: TrialFolder, output: str, outcome: dict[str, Any], status: str, reason: str
) -> None:
    run = nothing(folder, output, **outcome)
    assert run.status == status
    assert reason in run.reason


def test_the_last_error_is_the_reason_and_stays_one_line(folder: TrialFolder) -> None:
    output = "KeyError: 'a'\nDuring handling\nmy.own.LoaderError: " + "x" * 500
    run = nothing(folder, output, code=1)
    assert run.reason.startswith("my.own.LoaderError: xxx")
    assert len(run.reason) <= 200


def say(folder: TrialFolder, pid: int, content: Any) -> None:
    (folder.path / "applied").mkdir(exist_ok=True)
    (folder.path / "applied" / f"{pid}.json").write_text(json.dumps(content))


def test_what_training_processes_applied_counts_and_workers_do_not(folder: TrialFolder) -> None:
    say(folder, 1, {"compile": {"status": "applied", "detail": "Net"}})
    say(folder, 2, {"threads": {"status": "applied", "detail": "1"}})
    applied, refused = measuring.read_applied(folder.path, {1})
    assert (applied, refused) == ({"compile": "Net"}, {})


def test_what_was_never_reached_is_refused_with_a_reason(folder: TrialFolder) -> None:
    say(folder, 1, {"compile": {"status": "refused", "detail": "it does not compile"}})
    recipe = Recipe({"compile": {"mode": "default"}, "threads": {"threads": 1}})
    applied, refused = measuring._said(folder, recipe, [{"pid": 1}])
    assert applied == {}
    assert refused["compile"] == "it does not compile"
    assert "never came to where it applies" in refused["threads"]


@pytest.mark.parametrize("where", ["records", "applied"])
@pytest.mark.parametrize("content", ["[1, 2", "", "\x00\xff", "[]"])
def test_a_record_that_was_written_over_is_the_reason(
    folder: TrialFolder, where: str, content: str
) -> None:
    (folder.path / where).mkdir(exist_ok=True)
    (folder.path / where / "7.json").write_text(content, encoding="latin-1")
    run = nothing(folder, code=0)
    assert run.status == "failed"
    assert run.reason.startswith(f"its record {where}/7.json cannot be read")


@pytest.mark.parametrize("content", ["[1, 2", '"text"', "[]", '{"compile": 3}', '{"a": {}}'])
def test_garbage_about_what_was_applied_is_not_believed(folder: TrialFolder, content: str) -> None:
    (folder.path / "applied").mkdir()
    (folder.path / "applied" / "1.json").write_text(content)
    applied, _ = measuring.read_applied(folder.path, {1})
    assert applied == {}


def test_what_ended_in_every_process_has_ended_and_else_it_was_applied_in_part(
    folder: TrialFolder,
) -> None:
    applied = {"status": "applied", "detail": ""}
    ended, limited = {**applied, "until": "it ended"}, {**applied, "except": "no workers"}
    refused = {"status": "refused", "detail": "no loader"}
    say(folder, 1, {"a": ended, "b": ended, "c": limited, "d": refused, "e": applied})
    say(folder, 2, {"a": ended, "b": applied, "c": applied, "e": applied})
    assert measuring.read_limits(folder.path) == (
        {"a": "it ended"},
        {"b": "it ended", "c": "no workers"},
    )


def test_skipped_steps_are_told(folder: TrialFolder) -> None:
    say(folder, 1, {"precision-fp16": {"status": "applied", "detail": "Net", "skipped_steps": 2}})
    applied, _ = measuring.read_applied(folder.path)
    assert applied["precision-fp16"] == "Net; 2 steps skipped by overflow"


def window(stage: str, *seconds: float, kind: str = "step") -> dict[str, Any]:
    rows = [{"seconds": s, "samples": 8, "kind": kind, "disturbed": False} for s in seconds]
    return {"stage": stage, "wall": [0, 1], "intervals": rows}


def test_steps_in_bursts_are_told_by_the_mean_of_their_window() -> None:
    one = {"windows": [window("bare", *[0.001, 0.019] * 10)] * 3, "settled": True}
    assert measuring._window_means(one) == pytest.approx([0.01] * 3)


def test_windows_before_they_agreed_do_not_count() -> None:
    windows = [window("bare", 0.5), *[window("bare", 0.01, 0.01)] * 3]
    assert len(measuring._window_means({"windows": windows, "settled": True})) == 3
    assert len(measuring._window_means({"windows": windows, "settled": False})) == 4


def test_starting_an_epoch_is_not_part_of_a_plain_step() -> None:
    mixed = window("bare", 0.01, 0.01)
    mixed["intervals"] += window("bare", 3.0, kind="epoch")["intervals"]
    one = {"windows": [mixed], "settled": False}
    assert measuring._window_means(one) == pytest.approx([0.01])


def test_a_start_after_an_evaluation_is_spread_over_its_epoch(folder: TrialFolder) -> None:
    bare = window("bare", *[1.0] * 7)
    evaluated, later = window("bare", 50.0, kind="evaluation"), window("bare", 5.0, kind="epoch")
    (whole,), (start,) = evaluated["intervals"], later["intervals"]
    bare["intervals"].insert(0, {**whole, "resumed": start})
    one = raw(bare, loaders=[{**LOADER, "batches": 8}])
    outcome = Outcome(code=0, stopped="enough", seconds=9.0)
    measured = Measured(outcome=outcome, record=merged(one), raws=[one], applied={}, refused={})
    assert measuring.as_run(measured, folder, cold=False).step_seconds == 1.5


def test_a_start_in_every_step_is_counted_once(folder: TrialFolder) -> None:
    watched = window("phases", 1.0, 1.0, kind="epoch")
    for row in watched["intervals"]:
        row["phases"] = {"input": 0.9, "forward": 0.1}
    shares = {"wait_cpu_share": None, "workers_cpu_share": None}
    making = {**shares, "new_workers_making_seconds": 0.1}
    one = raw(window("bare", 1.0, 1.0, kind="epoch"), watched, input_cpu=making)
    record = merged(one)
    assert record.epoch_start_seconds == pytest.approx(0.8)
    outcome = Outcome(code=0, stopped="enough", seconds=9.0)
    measured = Measured(outcome=outcome, record=record, raws=[one], applied={}, refused={})
    assert measuring.as_run(measured, folder, cold=False).step_seconds == 1.0


def test_a_trials_folder_is_named_for_its_recipe() -> None:
    recipe = Recipe({"compile": {"mode": "reduce-overhead"}, "threads": {"threads": 1}})
    assert measuring.slug(recipe) == "threads-1-compile-reduce-overhead"
    assert measuring.slug(Recipe()) == "baseline"


@pytest.mark.parametrize(
    ("stopped", "complete", "ended"),
    [("enough", True, False), (None, False, True), (None, True, False)],
)
def test_a_run_ended_by_itself_if_it_was_neither_stopped_nor_measured_to_the_end(
    folder: TrialFolder, stopped: str | None, complete: bool, ended: bool
) -> None:
    one = raw(steps=41, complete=complete)
    measured = Measured(
        outcome=Outcome(code=0, stopped=stopped, seconds=9.0),
        record=merged(one),
        raws=[one],
        applied={},
        refused={},
    )
    run = measuring.as_run(measured, folder, cold=False)
    assert (run.steps, run.ended) == (41, ended)


def test_a_cache_is_full_once_a_run_that_filled_it_went_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = Recipe({"sample-cache": {"percent": 50}})
    told = iter([FAILED, None, None])

    def run(*args: Any, **more: Any) -> Run:
        return Run(folder="x", status=next(told))

    monkeypatch.setattr(measuring, "measure", lambda *args, **more: ended())
    monkeypatch.setattr(measuring, "as_run", run)
    where = measuring.Where(words=["train.py"], working=tmp_path)
    limits = Limits()
    machine = measuring.LocalMachine(
        where, lambda name: TrialFolder(tmp_path / name), timed=limits, full=limits, timeout=60.0
    )
    fills = []
    for _ in range(3):
        expected = machine.fills(cached)
        fills.append(machine.timed(cached, limit=60.0)[0].filling)
        assert fills[-1] == expected
    assert fills == [True, True, False]
    assert not machine.fills(Recipe())
