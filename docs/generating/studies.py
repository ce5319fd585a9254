"""A page for each study, and their index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from generating import drawing, pages
from generating.pages import DOCS, ROOT
from hotlap import answers, units
from hotlap.answers import Answer, Called, Done, Timed, Trained
from hotlap.reports import markdown, wording
from hotlap.studies import STUDIES, named
from hotlap.studies.disturbances import told
from hotlap.studies.study import Results, Setting, Study, machines

FOLDER = DOCS / "studies"
RESULTS = ROOT / "bench" / "results"
SECTIONS = ("What it shows", "How it is measured", "How to read it", "When it misleads")
ANEW = "Intervals and sentences are computed from them anew; the file has those of its time."
INTRO = """# Studies

The classic experiments on training, ready to run: `hotlap study NAME`, see [study](../study.md).
Each trains hotlap's own plain models with plain scripts, every cell in a fresh process, and answers
one question with a table, a picture and a sentence or two.
"""


def made() -> Iterator[tuple[Path, str]]:
    rows = ["| study | question |", "|---|---|"]
    for module in STUDIES:
        one = pages.read(module, SECTIONS)
        sections = []
        found = recorded(one.name)
        for file, answer in found:
            section, pictures = measured(file, answer)
            sections += [f"### {titled(answer)}"] if len(found) > 1 else []
            sections.append(section)
            yield from pictures
        more = "\n\n".join(["## Measured", *sections]) if sections else ""
        text = pages.page(one, facts=facts(module), more=more, back="[All studies](index.md)")
        yield FOLDER / f"{one.name}.md", text
        rows.append(f"| [{one.name}]({one.name}.md) | {module.QUESTION} |")
    source = "src/hotlap/studies/__init__.py"
    yield FOLDER / "index.md", "\n".join([pages.notice(source), INTRO, *rows, ""])


def recorded(name: str) -> list[tuple[Path, Answer]]:
    """The recorded runs of a study, the newest first."""
    found = [(file, answers.load(file)) for file in RESULTS.glob(f"study-{name}-*.json")]
    return sorted(found, key=lambda one: one[1].created, reverse=True)


def titled(answer: Answer) -> str:
    """Which one of several records it is."""
    stopped = "" if answer.complete else ", stopped before its end"
    return f"{wording.on(answer.machine)}, {wording.when(answer.created)}{stopped}"


def measured(file: Path, answer: Answer) -> tuple[str, list[tuple[Path, str]]]:
    """A recorded run of a study as part of its page, and the pictures that go with it."""
    answer = read_again(answer)
    pictures = [
        (FOLDER / f"{file.stem.removeprefix('study-')}-{number}.svg", drawing.svg(picture))
        for number, picture in enumerate(answer.pictures, 1)
    ]
    shown = [
        f"![{picture.words}]({path.name})\n\n{picture.words}"
        for (path, _), picture in zip(pictures, answer.pictures, strict=True)
    ]
    where = f"[{file.name}](../../{file.relative_to(ROOT).as_posix()})"
    whole = " ".join(
        filter(None, [f"Every run: {where} ({runs(answer)}). {ANEW}", lacking(answer)])
    )
    return "\n\n".join([markdown.render_answer(answer).strip(), *shown, whole]), pictures


def lacking(answer: Answer) -> str:
    """What the study would run today with these options and the record does not have."""
    planned = Counter((cell.row, type(cell)) for cell in named(answer.study).plan(setting(answer)))
    made = Counter((done.cell.row, type(done.cell)) for done in counted(answer))
    missing = planned - made
    if not missing:
        return ""
    known = {row.name for row in answer.rows}
    absent = sorted({row for row, _ in missing} - known)
    kinds = {Trained: "trained", Timed: "timed", Called: "run"}
    parts = [f"lacks {units.listed(absent)}"] if absent else []
    for kind, words in kinds.items():
        rows = [row for row, which in missing if which is kind and row in known]
        never = [row for row in rows if not made[row, kind]]
        parts += [f"has {units.plural(len(never), 'row')} not {words}"] if never else []
        fewer = len(rows) - len(never)
        parts += [f"has {units.plural(fewer, 'row')} {words} less often"] if fewer else []
    more = units.plural(sum(missing.values()), "run")
    why = f"It is of an earlier plan, and today's has {more} more"
    if not answer.complete:
        why = f"It was stopped before its end, with {more} to go"
    return f"{why}: the record {units.listed(parts)}."


def counted(answer: Answer) -> list[Done]:
    return [done for done in answer.cells if done.status != answers.SET_ASIDE]


def read_again(answer: Answer) -> Answer:
    """With the intervals, sentences and pictures that the study would make of these runs today."""
    study, asked, done = named(answer.study), setting(answer), counted(answer)
    place = {row.name: number for number, row in enumerate(answer.rows)}
    done.sort(key=lambda one: place[one.cell.row])  # cells were run in turns
    made = {one.cell.row for one in done}  # and of the others, which rows there would have been
    missing = [one for one in study.plan(asked) if one.row in place and one.row not in made]
    results = Results([*(one.cell for one in done), *missing], done)
    rows = tuple(study.tabulate(asked, results))
    said = study.read(asked, rows) + told(answer.cells, answer.machine["cores"])
    said += machines(answer.cells)
    drawn = study.draw(asked, rows, results)
    return msgspec.structs.replace(answer, rows=rows, reading=said, pictures=drawn)


def setting(answer: Answer) -> Setting:
    return Setting(**answer.options, cores=max(1, int(answer.machine["cores"])))


def runs(answer: Answer) -> str:
    """2 of each row; or 1 to 3 of each row."""
    counts = [row.runs for row in answer.rows if row.good]
    least, most = min(counts), max(counts)
    return f"{least} of each row" if least == most else f"{least} to {most} of each row"


def facts(module: Study) -> str:
    """The question, and what the table has."""
    lines = [
        ("question", module.QUESTION),
        ("columns", ", ".join(column.title for column in module.COLUMNS)),
        ("run it", f"`hotlap study {module.NAME}`, or with `--quick` to see that it works"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in lines)])
