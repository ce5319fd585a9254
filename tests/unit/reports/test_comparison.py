"""A comparison in a terminal and as Markdown: its numbers in words, and no text is obeyed."""

from __future__ import annotations

import io

import msgspec
import pytest
import sample_tunings as sample
from answered import answer
from rich.console import Console

import hotlap
from hotlap.comparisons import Change, Comparison, Figure
from hotlap.reports import comparison, markdown
from hotlap.tunings import Speedup

EVIL = "<script>alert(1)</script> | `x`"


@pytest.fixture(scope="module")
def found() -> Comparison:
    return hotlap.compare(sample.slow_profile(), sample.fast_profile())


def shown(one: Comparison, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(comparison.render(one))
    return console.file.getvalue()


def figure(
    before: float | None, after: float | None, unit: str = "seconds", **more: object
) -> Figure:
    made = Figure(name="x", group="y", unit=unit, before=before, after=after)
    return msgspec.structs.replace(made, **more)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (figure(2.0, 1.0), "−50 %"),
        (figure(1.0, 1.5), "+50 %"),
        (figure(1.0, 1.002), "±0 %"),
        (figure(1.0, 5.2), "5.2×"),
        (figure(0.0, 1.0), ""),
        (figure(None, 1.0), ""),
        (figure(1.0, float("nan")), ""),
        (figure(0.801, 0.816, "accuracy"), "+1.5 points"),
        (figure(0.8, 0.8, "share"), "±0.0 points"),
        (figure(2, 1, ratio=Speedup(ratio=0.5, low=0.45, high=0.55)), "−50 % (−55 to −45)"),
        (figure(1, 4, ratio=Speedup(ratio=4.0, low=3.5, high=4.5)), "4.00× (3.50 to 4.50)"),
    ],
)
def test_a_change_is_told_in_per_cent_in_points_or_as_a_multiple(made, words):
    assert " ".join(filter(None, comparison.change(made))) == words


def test_the_terminal_has_the_summary_both_sides_and_the_figures(found):
    text = " ".join(shown(found).split())
    for words in (found.summary, found.before.source, "where a step goes", "before after change"):
        assert " ".join(words.split()) in text
    assert "15.2 ms 400 µs −97 %" in text


def test_the_bars_are_on_one_scale(found):
    bars = [line for line in shown(found).splitlines() if "█" in line]
    lengths = [len(line.split(maxsplit=1)[1].rstrip()) for line in bars]
    whole = [
        sum(p.seconds or 0 for p in one.phases.values())
        for one in (sample.slow_profile(), sample.fast_profile())
    ]
    assert lengths[1] / lengths[0] == pytest.approx(whole[1] / whole[0], rel=0.1)


def test_memory_that_did_not_change_is_left_out_of_the_terminal_only(found):
    assert "parameters" not in shown(found)
    assert "activations" in shown(found)
    assert "parameters" in markdown.render_comparison(found)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_longer_than_the_terminal(found, width):
    assert max(map(len, shown(found, width).splitlines())) <= width


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_numbers_are_whole_and_what_changed_is_shown_at_any_width(found, width):
    text = shown(found, width)
    assert "…" not in text
    assert "−97 %" in text


def test_changes_stand_below_each_other(found):
    lines = shown(found).splitlines()
    head = next(line for line in lines if "change" in line)
    at = head.index("change") + len("change")
    rows = [line for line in lines if " % " in f"{line} " and ("■" in line or "step  " in line)]
    assert len(rows) > 3
    assert all(line[:at].endswith("%") for line in rows if "before" not in line)


def test_a_machine_is_named_once_or_as_what_it_was_and_is(found):
    other = msgspec.structs.replace(
        found, after=msgspec.structs.replace(found.after, machine="another")
    )
    assert shown(found, 80).count(found.before.machine) == 1
    assert f"{found.before.machine} → another" in shown(other, 120)


def test_a_study_shows_its_answer_in_the_terminal_and_every_column_as_markdown():
    made = hotlap.compare(answer(), answer())
    columns = [column.title for column in answer().columns]
    text = markdown.render_comparison(made)
    told = {one.group for one in made.figures}
    assert told <= set(columns)
    assert all(f"{group}: " in text for group in told)
    for group in told - {made.column}:
        assert f"\n{group}\n" not in shown(made)


def test_without_figures_there_is_no_head_of_a_table(found):
    empty = msgspec.structs.replace(found, figures=())
    assert "after  " in shown(found)
    assert "change" in shown(found)
    assert "change" not in shown(empty)


def test_text_of_others_is_never_markup(found):
    change = Change(name=EVIL, before=EVIL, after="b")
    evil = msgspec.structs.replace(found, changes=(change,), notes=(EVIL,), summary=EVIL)
    text = markdown.render_comparison(evil)
    assert "<script>" not in text.replace(r"\<script\>", "")
    rows = [line for line in text.splitlines() if line.startswith("| \\<script")]
    assert len(rows) == 1
    assert "[bold]" in shown(msgspec.structs.replace(found, notes=("[bold]x[/bold]",)))
    named = Change(name="[/x]", before="[/y]", after="b")
    assert "[/x]" in shown(msgspec.structs.replace(found, changes=(named,)))


def test_the_text_of_a_file_is_that_of_the_terminal_without_colours(found):
    text = comparison.plain(found)
    assert "\x1b" not in text
    assert found.summary.split(":")[0] in text
    assert not any(line.endswith(" ") for line in text.splitlines())
