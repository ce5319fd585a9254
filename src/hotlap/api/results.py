"""Results that are kept: which file a run's is in, and what is in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hotlap import answers, records, tunings
from hotlap.answers import Answer
from hotlap.errors import RecordError, UsageError
from hotlap.records import Profile
from hotlap.trials.folder import HOME, RunFolder
from hotlap.tunings import Tuning

Result = Tuning | Answer | Profile


def find(run: Path | None) -> Path:
    """The file that holds the result."""
    if run is None:
        return _newest(Path(HOME))
    if os.path.isdir(run):
        file = _result(run)
        if file is not None:
            return file
        if any(map(_result, _folders(run))):
            raise UsageError(f"{run} holds runs. Name one of them, such as {_newest(run).parent}.")
        raise UsageError(
            f"{run} holds no tuning.json, study.json or profile.json: it is no run's folder, or "
            "the run was ended before it had a result. Name another one."
        )
    if not os.path.exists(run):
        raise UsageError(f"There is no run {run}. Name a run's folder or the file --json wrote.")
    return run


def is_of_a_run(file: Path) -> bool:
    """Whether it lies in a run's folder under its own name, and not by itself."""
    return file in _results(file.parent)


def _result(folder: Path) -> Path | None:
    """None also where it may not be looked into: another one's run."""
    return next((file for file in _results(folder) if os.path.isfile(file)), None)


def _results(folder: Path) -> tuple[Path, ...]:
    names = RunFolder(folder)
    return names.tuning, names.study, names.result


def kept(home: Path) -> list[Path]:
    """The results of all runs in there, the newest first."""
    files = [file for file in map(_result, _folders(home)) if file is not None]
    return sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.parent.name), reverse=True)


def _folders(home: Path) -> list[Path]:
    try:
        return [one for one in home.iterdir() if os.path.isdir(one)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise UsageError(f"{home} cannot be read: {problem.strerror}. Name a run.") from problem


def _newest(home: Path) -> Path:
    files = kept(home)
    if not files:
        raise UsageError(
            f"There is no run in {home.absolute()}. Name a run's folder, or make one with "
            "hotlap tune COMMAND."
        )
    return files[0]


def load(file: Path) -> Result:
    text = records.read(file)
    newest = max(tunings.SCHEMA, answers.SCHEMA, records.SCHEMA)
    content = records.parse(text, source=str(file), newest=newest)
    if "trials" in content:
        return tunings.decode(text, source=str(file))
    if "study" in content:
        return answers.decode(text, source=str(file))
    return records.decode(text, source=str(file))


def encode(result: Result) -> bytes:
    if isinstance(result, Tuning):
        return tunings.encode(result)
    return answers.encode(result) if isinstance(result, Answer) else records.encode(result)


def kind(result: Result) -> str:
    """`tuning`, `profile`, or `study workers`."""
    if isinstance(result, Answer):
        return f"study {result.study}"
    return "tuning" if isinstance(result, Tuning) else "profile"


def of_kind(wanted: str | None, *, without: Path | None = None) -> Iterator[tuple[Path, Result]]:
    """The runs of a kind in ./.hotlap, the newest first; without a kind, that of the newest."""
    for file in kept(Path(HOME)):
        if without is not None and file.resolve() == without.resolve():
            continue
        try:
            found = load(file)
        except RecordError:  # of a newer hotlap, or damaged: another one will do
            continue
        wanted = wanted or kind(found)
        if kind(found) == wanted:
            yield file, found
