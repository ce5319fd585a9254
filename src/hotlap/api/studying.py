"""hotlap.study: a named list of cells, each in a fresh process, and what they say together."""

from __future__ import annotations

import lzma
import os
import shlex
import tarfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hotlap import __version__, answers, records, units
from hotlap.answers import Answer, Column, Done, Row
from hotlap.errors import Interrupted, NothingMeasured, RecordError, UsageError
from hotlap.reports import html, markdown
from hotlap.studies import named, places, surroundings
from hotlap.studies.conducting import Conducted, conduct, labelled
from hotlap.studies.disturbances import told
from hotlap.studies.runner import Runner
from hotlap.studies.study import Results, Setting, Study, columns, machines, unused
from hotlap.trials.folder import IMAGES, RunFolder

# What a study that is gone on with must have in common with its beginning.
SAME = {"torch": "torch", "processor": "the processor", "device_name": "the GPU"}


def study(
    name: str,
    *,
    quick: bool = False,
    device: str | None = None,
    data: str | os.PathLike[str] | None = None,
    epochs: int | None = None,
    seeds: int | None = None,
    resume: bool = False,
    slurm: str | Sequence[str] | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    runner: Runner | None = None,
    warn: Callable[[str], None] = lambda text: None,
    progress: Callable[[dict[str, Any]], None] = lambda state: None,
    begun: Callable[
        [Study, Sequence[Column], Sequence[str], dict[str, Any]], None
    ] = lambda *told: None,
    tell: Callable[[Row], None] = lambda row: None,
) -> Answer:
    """Runs one of the classic experiments and says what it shows: `hotlap study --list` has them.

    quick: a few seconds on a small model and few images: to see that it works, not to learn from.
    device: `cpu` or `cuda` (the GPU where there is one).
    data: a folder or an archive of the CIFAR-10 images; without it, images made from a seed.
    epochs, seeds: how long each training is and how often it is repeated (the study's own choice).
    resume: go on with the last study of this name and these options, unless torch or the machine
        have changed; cells that were measured are not run again.
    slurm: options for sbatch: each cell is a job of the cluster (fresh processes on this machine).
    jobs: how many of them at once (one).
    runner: what runs a cell instead.
    warn, progress, begun, tell: called with sentences, states, the study with its columns, the
        names of its rows and the machine it runs on, and each row.

    Raises `UsageError`, `NothingMeasured` or `Interrupted`.
    """
    chosen = named(name)
    place = places.chosen(slurm, _positive("--jobs", jobs))
    home = Path(out) if out is not None else None
    images = _images(data)
    epochs, seeds = _positive("--epochs", epochs), _positive("--seeds", seeds)
    surroundings.known(device)
    around = place.look(home, labelled(progress, "what a node is"))
    asked = surroundings.device(device, around)
    options = _options(quick=quick, device=asked, data=images, epochs=epochs, seeds=seeds)
    ever = unused(chosen, Setting(**{**options, "quick": False}, cores=2))
    for left_out in unused(chosen, Setting(**options, cores=2)):
        del options[left_out]
        quickly = "" if left_out in ever else " with --quick"
        warn(f"The study {name} has no use for --{left_out}{quickly}; it is left out.")
    about = around.described(options["device"])
    run, finished = _run_folder(chosen, options, about, home, resume=resume, warn=warn)
    setting = Setting(
        **options,
        images=str(run.path.parent / IMAGES),
        cores=max(1, int(around.cores)),
        gpus=around.gpus,
    )
    begun(chosen, columns(chosen, setting), Results(chosen.plan(setting), ()).rows, about)
    began = time.monotonic()

    def concluded(found: Conducted, *, complete: bool) -> Answer:
        seconds = time.monotonic() - began
        return _conclude(found, options, about, run, seconds, complete=complete)

    with closing(run), place.runner(run, warn) as (placed, stop):
        found = conduct(
            chosen,
            setting,
            runner or placed,
            finished=finished,
            tell=tell,
            keep=lambda found: answers.save(concluded(found, complete=False), run.study),
            progress=progress,
            at_once=place.at_once,
            cores=around.cores if place.shared else None,
            stop=stop,
        )
        answer = concluded(found, complete=found.complete)
        _save(answer, run)
    if not found.complete:
        raise Interrupted(
            f"Interrupted. {len(found.done)} of {units.plural(len(found.plan), 'cell')} "
            f"{'is' if len(found.done) == 1 else 'are'} kept in {run.study}; "
            f"go on with {_again(name, options, out=home, slurm=slurm, jobs=jobs)}",
            answer=answer,
        )
    if not any(row.good for row in answer.rows):
        raise NothingMeasured(
            f"No cell of the study could be measured. What they printed is in {run.path}",
            answer=answer,
        )
    return answer


def _again(name: str, options: dict[str, Any], **more: object) -> str:
    """What to type to go on, with the options as they were given."""
    return shlex.join(["hotlap", "study", "--resume", *_as_typed({**options, **more}), name])


def _as_typed(options: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for option, value in options.items():
        if value:
            words += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return words


def _options(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value}


def _positive(option: str, value: int | None) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise UsageError(f"{option} is {value!r}; it must be a whole number.")
    if value is not None and value < 1:
        raise UsageError(f"{option} is {value}; it must be positive.")
    return value


def _images(data: str | os.PathLike[str] | None) -> str | None:
    """Absolute: cells run in folders of their own."""
    if data is None:
        return None
    path = Path(data).expanduser().absolute()
    if not path.exists():
        raise UsageError(
            f"--data {data} is not there. Name a folder or an archive of train/CLASS/*.jpg and "
            "test/CLASS/*.jpg, or leave it out for images made from a seed."
        )
    if path.is_dir() and not all(any(path.glob(f"{split}/*/*")) for split in ("train", "test")):
        raise UsageError(
            f"--data {data} has no images in train/CLASS and test/CLASS, as in train/cat/0001.jpg."
        )
    if not path.is_dir() and not _is_tar(path):
        raise UsageError(
            f"--data {data} cannot be read as a tar. Fetch it again; of another kind of archive, "
            "give the folder it is unpacked to."
        )
    return str(path)


def _is_tar(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return False


def _run_folder(
    study: Study,
    options: dict[str, Any],
    about: dict[str, Any],
    home: Path | None,
    *,
    resume: bool,
    warn: Callable[[str], None],
) -> tuple[RunFolder, Sequence[Done]]:
    words = [f"{name}={value}" for name, value in options.items()]
    verb = f"study-{study.NAME}"
    run = RunFolder.latest(verb, command=words, out=home) if resume else None
    if resume and run is None:
        given = shlex.join(_as_typed(options))
        asked = f"{study.NAME} with {given}" if given else study.NAME
        warn(f"There is no study {asked} to go on with; starting one.")
    if run is not None:
        run.lock()
        finished, other = _taken_up(run, about)
        if not other:
            good = sum(one.good for one in finished)
            cells = units.plural(good, "measured cell")
            are = "is" if good == 1 else "are"
            warn(f"Going on in {run.path}: {cells} {are} taken from there.")
            return run, finished
        run.close()
        warn(f"{run.path} cannot be gone on with: {other}. A new one is started.")
    run = RunFolder.new(verb, out=home)
    run.lock()
    run.remember(words)
    return run, ()


def _taken_up(run: RunFolder, about: Mapping[str, Any]) -> tuple[list[Done], str]:
    """The cells it has measured (also those set aside), or why they cannot be used: then all of it
    stays as it is."""
    if not run.study.exists():  # stopped before its first cell was there
        return [], ""
    try:
        known = answers.load(run.study)
    except RecordError as problem:
        return [], str(problem).rstrip(".")
    measured = [one for one in known.cells if one.good or one.status == answers.SET_ASIDE]
    return measured, _differing(known.machine, about)


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What cells of both must not share a table for; empty where they may."""
    told = [
        f"it was measured with {SAME[name]} {before.get(name)}, and now it is {now.get(name)}"
        for name in SAME
        if before.get(name) != now.get(name)
    ]
    return "; ".join(told)


def _conclude(
    found: Conducted,
    options: dict[str, Any],
    about: dict[str, Any],
    run: RunFolder,
    seconds: float,
    *,
    complete: bool,
) -> Answer:
    study, rows = found.study, found.rows
    reading = study.read(found.setting, rows) + told(found.cells, about["cores"])
    reading += machines(found.done)
    return Answer(
        schema=answers.SCHEMA,
        hotlap=__version__,
        study=study.NAME,
        question=study.QUESTION,
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        folder=str(run.path),
        options=options,
        machine=about,
        seconds=seconds,
        columns=columns(study, found.setting),
        rows=tuple(rows),
        reading=reading,
        pictures=study.draw(found.setting, rows, found.results),
        cells=tuple(found.cells),
        complete=complete,
    )


def _save(answer: Answer, run: RunFolder) -> None:
    answers.save(answer, run.study)
    text = markdown.render_answer(answer)
    records.write(text.encode("utf-8", "backslashreplace"), run.markdown)
    records.write(html.render_answer(answer).encode(errors="replace"), run.report)
