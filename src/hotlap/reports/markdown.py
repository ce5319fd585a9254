"""A tuning, a study or a comparison as GitHub flavoured Markdown, to paste into a pull request."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from hotlap.answers import Answer, Column, Row
from hotlap.comparisons import Comparison, Side
from hotlap.reports import comparison, facts, rows, study, wording
from hotlap.reports.rows import Row as Tried
from hotlap.tunings import Tuning, Winner

_ACTIVE = re.compile(r"([\\`*_\[\]<>#|~&$])")
_LIST = re.compile(r"^([-+]|\d+[.)](?=\s))")


def render(tuning: Tuning) -> str:
    every = rows.of(tuning)
    blocks = [
        _headline(tuning),
        _paragraph(tuning.baseline.verdict.sentence),
        *(_paragraph(note) for note in tuning.notes),
        "" if tuning.complete else "The tuning was stopped early; this is what was measured.",
        _facts(tuning),
        _measured([row for row in every if row.measured]),
        _others([row for row in every if not row.measured]),
        *(_recipe(tuning, tuning.winner) if tuning.winner is not None else ()),
        _origin(tuning),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def render_answer(answer: Answer) -> str:
    def figure(row: Row, column: Column) -> str:
        value, between = study.shown(row, column), study.between(row, column)
        return f"{value} ({between})" if between else value

    names = [answer.study, *(column.title for column in answer.columns)]
    lines = [
        [_marked(row), *(figure(row, column) for column in answer.columns)]
        for row in answer.rows
        if row.good
    ]
    others = [(row.name, row.status, row.reason) for row in answer.rows if not row.good]
    words = f"{wording.on(answer.machine)}, {wording.when(answer.created)}"
    origin = f"{_code(wording.study_command(answer))} on {_text(words)}"
    blocks = [
        f"**{_text(answer.reading)}**",
        _paragraph(answer.question),
        "" if answer.complete else "The study was stopped early; this is what was measured.",
        _table(names, lines),
        _table((answer.study, "outcome", "why"), others),
        f"{origin}, hotlap {_text(answer.hotlap)}",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def render_comparison(found: Comparison) -> str:
    names = ("", "before", "after", "change", "")
    sides = (("before", found.before), ("after", found.after))
    blocks = [
        f"**{_text(found.summary)}**",
        _table(names, [_compared(line, found.kind) for line in comparison.lines(found)]),
        _table(
            ("set in another way", "before", "after"),
            [(one.name, one.before, one.after) for one in found.changes],
        ),
        _table(("finding", ""), [(one.summary, one.status) for one in found.findings]),
        _paragraph(f"Loss, as it is: {found.guard.reason}.") if found.guard is not None else "",
        *(_paragraph(note) for note in found.notes),
        "\n".join(f"- {name}: {_origin_of(side)}" for name, side in sides),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _compared(line: comparison.Line, kind: str) -> tuple[str, ...]:
    """A group that its figures' names do not show stands before them: of a study, the column."""
    plain = kind != "study" and line.group in ("step", "gain")
    name = line.name if plain else f"{line.group}: {line.name}"
    moved = f"{line.change} {line.between}".strip()
    return name, line.before, line.after, moved, line.outcome


def _origin_of(side: Side) -> str:
    words = f"{side.machine}, {wording.when(side.created)}"
    return f"{_code(side.command)} on {_text(words)}, hotlap {_text(side.hotlap)}"


def _marked(row: Row) -> str:
    return f"{row.name} (best)" if row.best else row.name


def _headline(tuning: Tuning) -> str:
    number = facts.number(tuning)
    summary = _text(tuning.summary)
    if number is None:
        return f"**{summary or 'Nothing was gained.'}**"
    note = f" ({number.note})" if number.note else ""
    return f"**{number.value} {number.name}**{note}. {summary}".rstrip()


def _facts(tuning: Tuning) -> str:
    found = facts.of_tuning(tuning)
    head = ("", "now" if tuning.winner is not None else "as it is", "")
    return _table(head, [(fact.name, fact.value, fact.note) for fact in found])


def _measured(found: Sequence[Tried]) -> str:
    names = ("trial", "outcome", "speed-up (95 %)", "against", "a step", "samples/s", "memory")
    return _table(
        (*names, "start-up", "pays after", "learning"),
        [
            (
                f"{_name(row)} (kept)" if row.kept else _name(row),
                f"{row.status}: {row.reason}" if row.reason else row.status,
                f"{row.ratio} ({row.interval})" if row.interval else row.ratio,
                row.against,
                row.step,
                row.rate,
                row.memory,
                row.start,
                row.break_even,
                row.guard,
            )
            for row in found
        ],
    )


def _name(row: Tried) -> str:
    return f"{row.name} = {row.recipe}" if row.recipe else row.name


def _others(found: Sequence[Tried]) -> str:
    """What could not be measured, folded away: complete, but not in the way of the review."""
    if not found:
        return ""
    table = _table(
        ("trial", "outcome", "why"), [(_name(row), row.status, row.reason) for row in found]
    )
    title = f"Not measured: {len(found)}"
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def _recipe(tuning: Tuning, winner: Winner) -> list[str]:
    parts = _table(
        ("change", "contributes", "by hand"),
        [
            (
                " ".join(filter(None, (part.name, wording.settings(part.settings)))),
                wording.speedup(part.speedup),
                part.by_hand,
            )
            for part in winner.parts
        ],
        code=(2,),
    )
    return [
        f"The recipe, {_code(wording.own_recipe(tuning))}:",
        _block(wording.recipe_text(tuning), "toml"),
        parts,
        "Train with it:",
        _block(wording.run_command(tuning, wording.own_recipe(tuning)), "sh"),
    ]


def _origin(tuning: Tuning) -> str:
    words = f"{wording.machine(tuning.baseline)}, {wording.when(tuning.created)}"
    return f"{_code(shlex.join(tuning.command))} on {_text(words)}, hotlap {_text(tuning.hotlap)}"


def _table(
    names: Sequence[str], lines: Iterable[Sequence[str]], *, code: Sequence[int] = ()
) -> str:
    made = [
        [
            _code(cell, table=True) if at in code and cell else _text(cell)
            for at, cell in enumerate(line)
        ]
        for line in lines
    ]
    if not made:
        return ""
    rule = ["---"] * len(names)
    return "\n".join(
        f"| {' | '.join(cells)} |" for cells in ([_text(name) for name in names], rule, *made)
    )


def _text(words: str) -> str:
    """One line in which nothing is markup, and @ calls nobody."""
    flat = " ".join(wording.visible(words).split())
    return _ACTIVE.sub(r"\\\1", flat).replace("@", "@\u200b")


def _paragraph(words: str) -> str:
    """Text that may start as it likes and is no list."""
    return _LIST.sub(r"\\\1", _text(words))


def _code(words: str, *, table: bool = False) -> str:
    flat = " ".join(wording.visible(words).split())
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    inner = f" {flat} " if flat[:1] == "`" or flat[-1:] == "`" else flat
    return f"{fence}{inner.replace('|', chr(92) + '|') if table else inner}{fence}"


def _block(words: str, language: str) -> str:
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", words)), default=0) + 1)
    return f"{fence}{language}\n{wording.visible(words).rstrip()}\n{fence}"
