"""A study as a terminal, a page, Markdown and CSV show it: every row, and no text is obeyed."""

import csv as readers
import io
import json
import re

import msgspec
import pytest
from answered import EVIL, answer
from rich.console import Console
from test_html import Page

from hotlap import answers
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Timed
from hotlap.errors import RecordError
from hotlap.reports import csv, html, markdown, pictures, study, wording
from hotlap.studies import STUDIES, named
from hotlap.studies.study import Results, Setting


@pytest.fixture(scope="module")
def page():
    return Page(html.render_answer(answer()))


def test_the_page_has_the_reading_every_row_and_every_cell(page):
    assert page.open == []
    for words in ("Best: batch 8", "812", "800 to 825", "batch 16", "batch 32", "failed", "x:y("):
        assert words in page.text
    assert len(page.figures) == 2


def test_text_of_others_is_never_markup(page):
    text = html.render_answer(answer())
    assert "<script>alert" not in text
    assert EVIL in page.text
    assert "<script>alert" not in markdown.render_answer(answer(options={}))


def test_a_study_without_figures_needs_no_plotly():
    text = html.render_answer(answer(pictures=(), rows=(), cells=()))
    assert "Nothing was measured that could be drawn" in text
    assert len(text) < 50_000


def test_an_early_end_is_said_everywhere():
    stopped = answer(complete=False)
    assert "stopped early" in html.render_answer(stopped)
    assert "stopped early" in markdown.render_answer(stopped)
    assert "stopped early" in shown(study.outcome(stopped))


def shown(renderable):
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable)
    return console.file.getvalue()


def test_the_table_of_a_terminal_lines_up():
    made = answer()
    header = study.header(made.columns).plain
    lines = [study.line(row, made.columns).plain for row in made.rows]
    assert len(header) == len(lines[0])
    assert lines[0].split()[:6] == ["batch", "8", "812", "(800", "to", "825)"]
    assert EVIL in lines[1]
    assert lines[2].split()[2] == "failed"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_a_narrow_terminal_gets_the_answers_and_is_told_of_the_rest(width):
    columns = [
        Column(name="batch", title="batch", unit="number"),
        Column(name="memory", title="memory", unit="bytes"),
        Column(name="step", title="step", unit="seconds"),
        Column(name="gain", title="gain", unit="ratio", interval=True),
        Column(name="test", title="test", unit="accuracy"),
    ]
    kept = study.fitting(columns, width)
    assert "gain" in [column.name for column in kept]
    order = [column.name for column in columns]
    assert sorted((column.name for column in kept), key=order.index) == [one.name for one in kept]
    assert len(study.header(kept).plain) <= width
    told = study.left_out(columns, kept)
    assert (told is None) == (len(kept) == len(columns))
    if told is not None:
        console = Console(width=width, file=io.StringIO())
        console.print(told)
        lines = console.file.getvalue().splitlines()
        assert "test" in " ".join(lines)
        assert all(line.startswith("  ") and len(line) <= width for line in lines)
    assert study.fitting(columns, None) == tuple(columns)


def test_the_places_of_a_study_are_told_in_one_piece():
    made = msgspec.structs.replace(answer(), folder="/a/very/long/way/" + 20 * "deep/")
    told = [line.plain.strip() for line in study.places(made)]
    assert [line.rpartition("/")[2] for line in told] == ["report.html", "study.md", "study.json"]
    assert all(line.startswith("/a/very/long/way/deep/") for line in told)


@pytest.mark.parametrize(
    ("name", "width", "kept"),
    [
        ("batchsize", 80, "samples_per_second gain peak_bytes step_seconds"),
        ("batchsize", 72, "samples_per_second gain peak_bytes"),
        ("scaling", 80, "samples_per_second gain efficiency step_seconds"),
        ("batchnorm", 80, "test_accuracy train_accuracy loss total_seconds"),
        ("optimizers", 80, "test_accuracy train_accuracy loss total_seconds"),
        ("memory", 80, "activation_bytes peak_bytes batch_seconds"),
        ("ladder", 80, "batch step_seconds samples_per_second gain"),
        (
            "ladder",
            120,
            "batch peak_bytes step_seconds samples_per_second gain epoch_seconds "
            "train_accuracy test_accuracy",
        ),
    ],
)
def test_what_a_study_is_about_stays_where_a_terminal_is_narrow(name, width, kept):
    rows = Results(named(name).plan(Setting(device="cuda", cores=16)), ()).rows
    columns = study.fitting(named(name).COLUMNS, width, name=study.named(rows))
    assert [column.name for column in columns] == kept.split()
    assert len([column for column in columns if column.interval]) == 1


def test_titles_of_several_words_stand_apart():
    for one in STUDIES:
        titles = [column.title for column in one.COLUMNS]
        assert re.split(r" {2,}", study.header(one.COLUMNS).plain.strip()) == titles


def test_names_take_the_room_they_need_and_no_more():
    rate = (Column(name="rate", title="samples/s", unit="rate"),)
    assert study.named(["batch 8", "batch 16"]) == 8
    assert study.line(Row(name="batch 8"), rate, name=8).plain == "  batch 8           –"
    assert study.named(["a name that is much too long for a table"]) == study.NAME


def test_what_was_run_is_told_with_the_settings_of_its_recipe():
    recipe = {
        "batch-size": {"factor": 4, "learning-rate": "linear"},
        "device-input": {},
        "compile": {"mode": "reduce-overhead"},
    }
    cell = Timed(row="a", words=("train.py",), recipe=recipe)
    told = "train.py with batch-size: factor 4, learning rate linear; device-input; compile: mode "
    told += "reduce-overhead"
    assert wording.cell_words(cell) == told


def test_several_pictures_are_called_so_and_no_cell_has_a_kind(page):
    assert "Pictures" in page.text
    assert "timed" not in page.text
    one = html.render_answer(answer(pictures=answer().pictures[:1]))
    assert "<h2>Picture</h2>" in one


def test_a_value_that_is_not_there_is_a_dash():
    column = Column(name="rate", title="samples/s", unit="rate")
    assert study.shown(Row(name="a"), column) == "–"
    assert study.shown(Row(name="a", values={"rate": float("nan")}), column) == "–"
    assert study.between(Row(name="a", intervals={"rate": (1.0, float("inf"))}), column) == ""


def test_markdown_marks_the_best_and_lists_what_failed():
    text = markdown.render_answer(answer())
    assert "| batch 8 (best) | 812 (800 to 825) | 9.80 ms | 5.00 MiB | – |" in text
    assert "| batch 32 | failed | " in text
    assert text.startswith("**Best: batch 8 with 812 samples/s.**")


def test_csv_has_numbers_intervals_and_what_was_varied():
    rows = list(readers.DictReader(io.StringIO(csv.render_answer(answer()))))
    assert [row["row"] for row in rows] == ["batch 8", "batch 16", "batch 32"]
    assert float(rows[0]["rate"]) == 812.4
    assert float(rows[0]["rate_high"]) == 825.2
    assert float(rows[0]["batch"]) == 8
    assert rows[0]["best"] == "yes"
    assert rows[1]["rate"] == ""


def test_pictures_scale_bytes_and_show_intervals():
    lines, bars = (pictures.figure(one) for one in answer().pictures)
    assert lines.data[0]["error_y"]["array"] == [pytest.approx(12.8), pictures.NONE]
    assert lines.layout["xaxis"]["tickvals"] == [8.0, 16.0]
    assert bars.layout["barmode"] == "stack"
    assert bars.data[0]["x"][1] == pytest.approx(2 / (1 << 20))
    assert "<script" not in json.dumps(bars.data)


def drawn(kind, x, y, series):
    return pictures.figure(
        Picture(kind=kind, x=x, y=y, series=tuple(series), words="What it shows.")
    )


def test_seconds_that_happened_get_round_numbers_and_not_a_tick_each():
    seconds = Axis(title="seconds of training", log=True)
    at = (12.473818859999938, 13.186451555999838, 14.623384353999882, 78.45489895900005)
    line = Series(name="stock", x=at, y=(0.4, 0.5, 0.6, 0.8))
    axis = drawn("lines", seconds, Axis(title="right", unit="share"), [line]).layout["xaxis"]
    assert axis["ticktext"] == ["15", "20", "30", "50", "70"]


def test_a_logarithmic_height_is_not_numbered_at_every_line():
    rate = Axis(title="samples/s", log=True)
    line = Series(name="workers", x=("0 ms", "5 ms"), y=(5.0, 25_360.0))
    axis = drawn("lines", Axis(title="latency"), rate, [line]).layout["yaxis"]
    assert axis["ticktext"] == ["10", "100", "1,000", "10,000"]


def test_bars_lie_beside_their_names_however_long_and_many():
    names = tuple(f"{EVIL} and a name that is far too long {at}" for at in range(19))
    one = Series(name="a", x=names, y=(1.0,) * 19, low=(0.5,) * 19, high=(2.0,) * 19)
    made = drawn("bars", Axis(title="optimization"), Axis(title="samples/s"), [one])
    assert made.data[0]["orientation"] == "h"
    assert made.data[0]["error_x"]["array"] == [1.0] * 19
    axis = made.layout["yaxis"]
    assert axis["tickvals"] == made.data[0]["y"]
    assert all("<" not in words and words.endswith("…") for words in axis["ticktext"])
    assert made.layout["height"] > 19 * 20


def test_bars_on_a_logarithmic_axis_begin_at_a_power_of_ten():
    one = Series(name="epoch", x=("CPU", "GPU"), y=(1124.0, 6.1))
    seconds = Axis(title="seconds an epoch", log=True)
    axis = drawn("bars", Axis(title="device"), seconds, [one]).layout["xaxis"]
    assert axis["range"][0] == 0
    assert axis["ticktext"] == ["1", "10", "100", "1,000"]


def test_a_picture_grows_with_its_legend():
    axes = Axis(title="epoch"), Axis(title="loss")
    lines = [Series(name=f"{at}", x=("1", "2"), y=(1.0, 2.0)) for at in range(8)]
    few, many = (drawn("lines", *axes, some).layout["height"] for some in (lines[:1], lines))
    assert many > few + 60


def test_bands_lie_below_their_lines_and_leave_gaps_alone():
    line = Series(name=EVIL, x=("1", "2"), y=(0.5, None), low=(0.4, None), high=(0.6, None))
    bare = Series(name="one seed", x=("1", "2"), y=(0.5, 0.7))
    axis = Axis(title="test accuracy", unit="share")
    made = pictures.figure(
        Picture(kind="bands", x=Axis(title="epoch"), y=axis, series=(line, bare), words="Both.")
    )
    area, first, second = made.data
    assert (area["fill"], area["x"], area["y"]) == ("toself", ["1", "1"], [0.6, 0.4])
    assert area["fillcolor"] == first["line"]["color"] != second["line"]["color"]
    assert not area["showlegend"]
    assert not first["error_y"]["visible"]
    assert made.layout["yaxis"]["tickformat"] == ".0%"
    assert "<script" not in json.dumps(made.data)


def test_an_answer_is_the_same_after_it_was_saved(tmp_path):
    answers.save(answer(), tmp_path / "study.json")
    assert answers.load(tmp_path) == answer()
    (tmp_path / "study.json").write_bytes(b'{"schema": 1, "study": 3}')
    with pytest.raises(RecordError, match="does not fit schema 1"):
        answers.load(tmp_path)
    (tmp_path / "study.json").write_bytes(b'{"schema": 99}')
    with pytest.raises(RecordError, match="Upgrade hotlap"):
        answers.load(tmp_path)


def test_of_a_cell_that_was_skipped_nothing_was_run():
    cell = Timed(row="GPU", words=("python", "train.py"), skip="there is no GPU")
    made = answer(cells=(Done(cell=cell, status=answers.SKIPPED, reason=cell.skip),))
    text = html.render_answer(made)
    assert "train.py" not in text
    assert '<td class="number">–</td><td></td><td>nothing</td>' in text


def test_a_value_without_an_interval_has_no_error_bar():
    y = Axis(title="seconds")

    def bars(*ends):
        low, high = zip(*ends, strict=True)
        one = Series(name="a", x=("p", "q"), y=(2.0, 2.0), low=low, high=high)
        shown = Picture(kind="bars", x=Axis(title="row"), y=y, series=(one,), words="")
        return pictures.figure(shown).data[0]["error_x"]

    assert bars((None, None), (None, None)) == {"visible": False}
    some = bars((None, None), (1.0, 4.0))
    assert some["array"] == [pictures.NONE, 2.0]
    assert some["arrayminus"] == [pictures.NONE, 1.0]
