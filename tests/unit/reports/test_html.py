"""The page is whole, honest about what is missing, and nobody's words become its markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
import sample_tunings as sample

from hotlap import tunings
from hotlap.records import Memory, Phase
from hotlap.reports import html
from hotlap.tunings import Noise, Speedup, Trial

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{ 7*7 }}"
VOID = {"meta", "br", "img", "input", "link", "hr"}
NOTHING_SAID = re.compile(r"\b(None|nan|NaN|inf|null|undefined)\b")


class Page(HTMLParser):
    """What a browser would make of it: elements that close, their attributes, text and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[str, str]] = []
        self.styles = ""
        self.headings: list[int] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type") or "", ""))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif self.open[-1:] == ["style"]:
            self.styles += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def figures(self) -> list[dict[str, list[dict[str, object]]]]:
        return [json.loads(text) for kind, text in self.scripts if kind == "application/json"]


def page(**changes: object) -> Page:
    return Page(html.render(sample.tuning(**changes)))


@pytest.fixture(scope="module")
def whole() -> Page:
    return page()


def test_every_element_is_closed(whole: Page) -> None:
    assert whole.open == []


def test_it_loads_nothing_from_anywhere(whole: Page) -> None:
    loading = {"src", "href", "srcset", "action", "data", "poster", "background", "ping"}
    targets = [value for _, name, value in whole.attributes if name in loading]
    assert targets
    assert all(value.startswith("#") for value in targets), targets
    assert "url(" not in whole.styles
    assert "@import" not in whole.styles
    drawing = whole.scripts[-1][1]
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(", drawing)


def test_its_policy_allows_two_scripts_and_no_connection(whole: Page) -> None:
    policy = next(value for _, name, value in whole.attributes if "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert len(re.findall(r"'sha256-[^']{44}'", policy)) == 2
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "connect-src" not in policy


def test_plotly_is_in_it_once_and_the_file_can_still_be_sent_by_mail() -> None:
    text = html.render(sample.tuning())
    assert text.count("plotly.js v") == 1
    assert len(text.encode()) < 6_000_000


def test_the_gain_and_its_interval_come_first(whole: Page) -> None:
    assert whole.text.index("2.40×") < whole.text.index("Where a step goes")
    assert "95 % interval 2.36 to 2.45" in whole.text
    assert "58 % of every 26.1 ms step goes to waiting for input" in whole.text


def test_sections_come_in_the_order_of_the_questions(whole: Page) -> None:
    assert [value for tag, name, value in whole.attributes if (tag, name) == ("section", "id")] == [
        "phases",
        "trials",
        "steps",
        "learning",
        "memory",
        "machine",
        "recipe",
        "findings",
        "environment",
        "again",
    ]


def test_headings_never_skip_a_level(whole: Page) -> None:
    assert whole.headings[0] == 1
    assert whole.headings.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(whole.headings, whole.headings[1:], strict=False))


def test_every_status_and_every_reason_is_shown(whole: Page) -> None:
    for status in tunings.STATUSES:
        assert status in whole.text
    for trial in sample.trials():
        assert trial.name in whole.text
        assert trial.reason in whole.text


def test_every_plot_and_every_bar_says_what_it_shows(whole: Page) -> None:
    pictures = [tag for tag, name, value in whole.attributes if (name, value) == ("role", "img")]
    labels = [value for _, name, value in whole.attributes if name == "aria-label" and value]
    assert len(pictures) == 7  # three plots, two bars for phases and two for memory
    assert any("Speed-up of 7 trials" in label for label in labels)
    assert any(label.startswith("before: input 15.2 ms") for label in labels)


def test_the_after_bar_is_drawn_on_the_scale_of_the_before_bar(whole: Page) -> None:
    widths = [
        float(value.split()[1].rstrip("%"))
        for tag, name, value in whole.attributes
        if tag == "span" and name == "style"
    ]
    assert sum(widths[:5]) == pytest.approx(100, abs=0.01)
    assert sum(widths[5:10]) == pytest.approx(100 * 9.9 / 26.13, abs=0.1)


def test_the_recipe_its_parts_and_the_commands_are_there(whole: Page) -> None:
    for words in (
        "[loader-workers]",
        "workers = 8",
        "1.98× (1.95 to 2.01)",
        "DataLoader(dataset, ..., num_workers=8)",
        "hotlap run --recipe .hotlap/tune-20261115-071306/recipe.toml train.py --epochs 90",
        "hotlap tune train.py --epochs 90",
        "Pass num_workers=8",
        "train.py:68",
    ):
        assert words in whole.text


def hostile() -> tunings.Tuning:
    bad = Trial(name=HOSTILE, recipe={}, status=tunings.FAILED, reason=HOSTILE, log=HOSTILE)
    plotted = sample.measured(HOSTILE, HOSTILE, 1.2, against=HOSTILE, reason=HOSTILE)
    baseline = sample.slow_profile()
    finding = msgspec.structs.replace(
        baseline.findings[0],
        rule=HOSTILE,
        summary=HOSTILE,
        evidence=HOSTILE,
        advice=HOSTILE,
        file=HOSTILE,
    )
    baseline = msgspec.structs.replace(
        baseline,
        environment={"device_name": HOSTILE, HOSTILE: HOSTILE, "cores": HOSTILE, "torch": HOSTILE},
        findings=(finding,),
    )
    part = msgspec.structs.replace(
        sample.winner().parts[0],
        name=HOSTILE,
        settings={HOSTILE: HOSTILE},
        numerics=HOSTILE,
        by_hand=HOSTILE,
        note=HOSTILE,
    )
    return sample.tuning(
        command=("train.py", HOSTILE),
        folder=HOSTILE,
        created=HOSTILE,
        hotlap=HOSTILE,
        summary=HOSTILE,
        goal=HOSTILE,
        notes=(HOSTILE,),
        baseline=baseline,
        trials=(bad, plotted),
        winner=sample.winner(parts=(part,), guard=sample.guard(HOSTILE, HOSTILE)),
    )


def test_nobodys_words_become_markup() -> None:
    found = Page(html.render(hostile()))
    assert found.open == []
    assert not [one for one in found.attributes if one[0] == "img" or one[1] == "onerror"]
    code = [text for kind, text in found.scripts if kind == ""]
    assert len(code) == 2
    assert not any("alert(" in text for text in code)
    assert "{{ 7*7 }}" in found.text
    assert found.text.count("<script>alert(1)</script>") > 15


def test_nobodys_words_become_tags_inside_a_plot() -> None:
    figure = Page(html.render(hostile())).figures[0]
    texts = [*figure["data"][0]["text"], figure["data"][0]["name"]]  # type: ignore[misc]
    texts += figure["layout"]["yaxis"]["ticktext"]  # type: ignore[call-overload]
    for layout in (figure["layout"], figure["narrow"]):
        texts += [one["text"] for one in layout["annotations"]]  # type: ignore[call-overload]
    assert texts
    assert not [text for text in texts if re.search(r"<(?!br>)", text)]


def test_a_file_name_that_is_no_text_does_not_stop_the_page() -> None:
    text = html.render(sample.tuning(command=("train.py", "caf\udce9.yaml")))
    assert text.encode()
    assert "udce9" in text


def missing_everything() -> tunings.Tuning:
    """A run that was stopped right after a baseline of which hardly anything is known."""
    baseline = sample.profile(
        phases={name: Phase(seconds=None, share=None) for name in ("input", "forward")},
        memory=Memory(
            kind="device",
            peak_bytes=None,
            reserved_bytes=None,
            parameters_bytes=None,
            gradients_bytes=None,
            optimizer_bytes=None,
            activations_bytes=None,
            rest_bytes=None,
        ),
        usage=sample.records.Usage(),
        losses=(),
        step_seconds=(),
        findings=(),
        environment={},
    )
    step = msgspec.structs.replace(baseline.step, samples=None, samples_per_second=None)
    return sample.tuning(
        baseline=msgspec.structs.replace(baseline, step=step),
        noise=Noise(runs=1, spread=float("nan"), low=float("nan"), high=float("inf")),
        trials=(),
        winner=None,
        summary="",
        baseline_runs=(),
        complete=False,
    )


def test_what_is_missing_is_said_in_words() -> None:
    found = Page(html.render(missing_everything()))
    assert found.open == []
    for words in (
        "The phases of a step could not be told apart.",
        "Nothing was tried.",
        "No step was timed one by one.",
        "No loss was seen",
        "Memory was not measured.",
        "No recipe was proven better",
        "Nothing stands out beside the verdict.",
        "The environment was not recorded.",
        "stopped early",
    ):
        assert words in found.text
    assert not NOTHING_SAID.search(found.text)


def test_without_a_plot_there_is_no_script_at_all() -> None:
    text = html.render(missing_everything())
    assert "<script" not in text
    assert [one for one in Page(text).attributes if "script-src 'none'" in one[2]]
    assert len(text) < 50_000


@pytest.mark.parametrize(
    "changes",
    [
        {"winner": None},
        {"winner": sample.winner(profile=None)},
        {"winner": sample.winner(guard=tunings.Guard(status="unclear", reason=""))},
        {"winner": sample.winner(peak_bytes=None, baseline_peak_bytes=None, start_seconds=None)},
        {"winner": sample.winner(samples_per_second=None, break_even_steps=None, parts=())},
        {"winner": sample.winner(speedup=Speedup(ratio=1.2, low=float("nan"), high=float("inf")))},
        {"winner": sample.winner(recipe={"of-ones-own": {"strength": 3}})},
        {"baseline_runs": (sample.run(1, losses=()), sample.run(2, losses=(None, None)))},
        {"baseline_runs": (sample.run(1, losses=(1.0, float("nan"), 0.5), sample_seconds=None),)},
        {"trials": (Trial(name="x", recipe={}, status="of a newer hotlap"),)},
        {"trials": (sample.measured("x", tunings.SAME, 1.0, guard=None, peak_bytes=None),)},
        {"trials": (sample.measured("x", tunings.SAME, 1.0, speedup=None, start_seconds=None),)},
        {"goal": "memory"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_gap_is_never_said_as_none_or_nan(changes: dict[str, object]) -> None:
    found = page(**changes)
    assert found.open == []
    assert not NOTHING_SAID.search(found.text)
    assert not [value for _, _, value in found.attributes if NOTHING_SAID.search(value)]


def test_a_change_this_hotlap_does_not_know_is_not_dropped_in_silence() -> None:
    found = page(winner=sample.winner(recipe={"of-ones-own": {}}))
    assert "[of-ones-own]" in found.text


def test_with_memory_as_the_goal_the_number_is_the_memory_saved() -> None:
    found = page(goal="memory")
    assert "16 % less memory" in found.text
    assert "4.28 GiB of 5.09 GiB" in found.text


def test_two_peaks_of_one_command_are_explained_where_the_second_is_shown(whole: Page) -> None:
    assert "At the top stands the median" not in whole.text  # they agree
    found = page(winner=sample.winner(baseline_peak_bytes=4000 * sample.MIB))
    memory = found.text[found.text.index("This is the peak of two steps in a single run") :]
    assert "At the top stands the median over all runs: 3.91 GiB before." in memory
    assert "5.09 GiB" in memory
    both = page(winner=sample.winner(baseline_peak_bytes=None, peak_bytes=3000 * sample.MIB))
    assert "all runs: 2.93 GiB after." in both.text


def test_a_profile_has_the_same_page() -> None:
    found = Page(html.render_profile(sample.profile()))
    assert found.open == []
    assert "78 % of every 4.12 ms step goes to computing." in found.text
    assert "The step time did not settle within the limits." in found.text
    assert "hotlap profile train.py" in found.text
    assert len(found.figures) == 2
    assert not NOTHING_SAID.search(found.text)


def test_a_profile_of_hardly_anything_has_a_page_too() -> None:
    found = Page(html.render_profile(missing_everything().baseline))
    assert found.open == []
    assert not NOTHING_SAID.search(found.text)
