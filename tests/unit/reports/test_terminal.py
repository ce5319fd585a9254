"""What a profile and a tuning say first: figures that stand together go together."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
import sample_tunings
from rich.console import Console, RenderableType

from hotlap import records, tunings
from hotlap.records import Memory, Profile, Rank
from hotlap.reports import facts, terminal, tuning
from hotlap.tunings import Speedup, Trial

DATA = Path(__file__).parents[1] / "data"


def drawn(report: RenderableType, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as caught:
        console.print(report)
    return caught.get()


def profile(*, median: float, mean: float) -> Profile:
    """Of batches of 512."""
    found = records.load(DATA / "profile-schema-1.json")
    step = msgspec.structs.replace(
        found.step,
        median_seconds=median,
        mean_seconds=mean,
        samples=512.0,
        samples_per_second=512 / mean,
    )
    return msgspec.structs.replace(found, step=step)


@pytest.mark.parametrize("render", [terminal.render, tuning.intro])
def test_the_mean_is_told_where_the_rate_does_not_follow_from_the_median(render):
    text = drawn(render(profile(median=0.0176, mean=0.0229)))
    assert "17.6 ms" in text
    assert "22.9 ms on average" in text
    assert "22,358 samples/s" in text


@pytest.mark.parametrize("render", [terminal.render, tuning.intro])
def test_even_steps_have_one_time(render):
    assert "on average" not in drawn(render(profile(median=0.0200, mean=0.0201)))


def test_the_page_tells_the_mean_beside_the_rate():
    rate = facts.of_profile(profile(median=0.0176, mean=0.0229))[1]
    assert rate.note == "512 a step, 22.9 ms on average"


@pytest.mark.parametrize("width", [80, 100, 120, 140])
@pytest.mark.parametrize("goal", ["speed", "memory"])
def test_rows_stand_under_their_titles_and_fit_the_terminal(width, goal):
    found = sample_tunings.tuning()
    lines = [tuning.header(width, goal).plain]
    titles = lines[0].split()
    assert ("memory" in titles) == (goal == "memory" or width >= tuning.WIDE_FOR_MEMORY)
    for trial in found.trials:
        if trial.runs:
            lines += tuning.row(trial, width, goal).plain.splitlines()
    ends = lines[0].index("(95 %)") + len("(95 %)")
    for line in lines[1:]:
        assert len(line) <= width, line
        if "x (" in line[: ends + 1] and not line.startswith("    "):
            assert line[ends - 1] == ")", (line, lines[0])


def test_an_interval_that_holds_everything_stands_without_a_figure():
    wide = Speedup(ratio=11.1, low=0.26, high=476.8)
    trial = sample_tunings.measured("threads 1", tunings.UNPROVEN, 1.0, speedup=wide)
    assert "– (0.26–476.80)" in tuning.row(trial, 120).plain


def test_a_reason_that_is_too_long_for_its_row_stands_below_it():
    reason = "RuntimeError: " + " ".join(["shapes do not match"] * 8)
    failed = next(one for one in sample_tunings.tuning().trials if one.status == "failed")
    failed = msgspec.structs.replace(failed, reason=reason)
    first, *rest = tuning.row(failed, 80).plain.splitlines()
    assert "RuntimeError" not in first
    assert " ".join(" ".join(rest).split()).startswith(reason)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ((0.04, 0.08), "2, the slowest is rank 1\n"),
        ((0.041, 0.04), "2, the slowest is rank 0, by less than counts"),
        ((None, None), "2\n"),
    ],
)
def test_the_slowest_rank_is_named_and_whether_that_counts(own, words):
    ranks = tuple(
        Rank(rank=number, pid=number, steps=90, median_seconds=0.1, own_seconds=seconds)
        for number, seconds in enumerate(own)
    )
    found = msgspec.structs.replace(profile(median=0.1, mean=0.1), ranks=ranks)
    lines = [line.rstrip() for line in drawn(terminal.render(found)).splitlines()]
    assert words in "\n".join(lines) + "\n"


def test_input_that_another_thread_fetches_is_not_said_to_have_no_loader():
    found = profile(median=0.1, mean=0.1)
    unknown = records.Phase(seconds=None, share=None)
    found = msgspec.structs.replace(found, phases={**found.phases, "input": unknown})
    assert "another thread fetches" in drawn(terminal.render(found))
    found = msgspec.structs.replace(found, loaders=())
    assert "no DataLoader was used" in drawn(terminal.render(found))


@pytest.mark.parametrize("width", [40, 60, 66, 72, 80, 200])
def test_the_parts_of_memory_are_whole_at_every_width(width):
    memory = Memory(
        kind="device",
        peak_bytes=2_000 << 20,
        reserved_bytes=None,
        parameters_bytes=101 << 20,
        gradients_bytes=102 << 20,
        optimizer_bytes=103 << 20,
        activations_bytes=104 << 20,
        rest_bytes=105 << 20,
    )
    page = drawn(
        terminal.render(msgspec.structs.replace(profile(median=0.1, mean=0.1), memory=memory)),
        width=width,
    )
    for number, name in enumerate(terminal.MEMORY, start=101):
        assert f"■ {name}" in page
        assert f"{number} MiB" in page
    for name in terminal.PHASES:
        assert f"  {name} " in page


def test_a_program_on_the_command_line_is_shown_by_its_first_line():
    command = ("python", "-c", "import torch\nmodel = torch.nn.Linear(4, 4)\n", "--epochs", "3")
    found = msgspec.structs.replace(profile(median=0.1, mean=0.1), command=command)
    assert "python -c 'import torch …' --epochs 3 " in drawn(terminal.render(found))


def failed_bundle():
    return Trial(
        name="everything promising",
        recipe={"compile": {"mode": "default"}, "loader-workers": {"workers": 2}},
        status="failed",
        reason="RuntimeError: shapes do not match",
        log="/runs/1/output.log",
    )


@pytest.mark.parametrize("width", [70, 140])
def test_a_bundle_that_failed_says_what_was_in_it(width):
    line, *below = tuning.row(failed_bundle(), width).plain.splitlines()
    assert below[0].strip() == "= loader-workers 2 + compile default"
    assert "RuntimeError" in line or "RuntimeError" in below[1]


def test_the_last_line_is_two_where_the_terminal_is_narrow():
    found = sample_tunings.tuning()
    wide = [line.plain for line in tuning.closing(found)]
    narrow = [line.plain for line in tuning.closing(found, width=70)]
    assert wide[-1].endswith("   logs of the trials beside it")
    assert " ".join(narrow).split() == " ".join(wide).split()
    assert narrow[-1] == "  logs of the trials beside it"


@pytest.mark.parametrize("asked", ["no colours", "colours"])
def test_phases_are_told_apart_by_patterns_where_colours_are_not_wanted(asked):
    console = Console(
        file=io.StringIO(),
        width=100,
        force_terminal=True,
        color_system="truecolor",
        no_color=asked == "no colours",
    )
    console.print(terminal.render(profile(median=0.1, mean=0.1)))
    text = console.file.getvalue()
    assert ("▓▓" in text) == (asked == "no colours")
