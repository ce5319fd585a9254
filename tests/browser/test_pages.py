"""What a person sees of a page in a real browser: drawn, within its width, legible, and quiet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest
import sample_tunings as sample
from test_html import HOSTILE

from hotlap import answers, tunings
from hotlap.reports import html

pytestmark = pytest.mark.skipif(
    bool(chromium.missing()), reason=chromium.missing() or "it is there"
)
RESULTS = Path(__file__).parents[2] / "bench" / "results"

PAGES: dict[str, Callable[[], str]] = {
    "profile": lambda: html.render_profile(sample.profile()),
    "tuning": lambda: html.render(sample.tuning()),
    "tuning-without-winner": lambda: html.render(sample.tuning(winner=None)),
    **{
        file.stem: lambda file=file: html.render(tunings.load(file))  # type: ignore[misc]
        for file in sorted(RESULTS.glob("tune-*.json"))
    },
    **{
        file.stem: lambda file=file: html.render_answer(answers.load(file))  # type: ignore[misc]
        for file in sorted(RESULTS.glob("study-*.json"))
    },
}
WIDTHS = (1280, 768, 360)
LEAST_CONTRAST = 4.5  # what WCAG asks of text (AA)

QUESTIONS = (Path(__file__).parent / "questions.js").read_text()


def ask(browser: chromium.Browser, question: str) -> Any:
    return browser.evaluate(f"{QUESTIONS.rstrip()}.{question}")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    with chromium.browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("pages")

    def written(name: str) -> Path:
        file = folder / f"{name}.html"
        if not file.exists():
            file.write_text(PAGES[name](), encoding="utf-8")
        return file

    return written


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_within_every_width_and_asks_for_nothing(
    name: str, browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    file = pages(name)
    browser.open(file)
    for width in WIDTHS:
        browser.resize(width)
        ask(browser, "settled()")
        found = {
            asked: ask(browser, f"{asked}()") for asked in ("wide", "cut", "overlapping", "empty")
        }
        assert {asked: one for asked, one in found.items() if one} == {}, f"at {width} pixels"
    assert browser.complaints() == []
    assert browser.asked_for() == [file.as_uri()]


@pytest.mark.parametrize("name", ["study-ladder-h200", "study-cache-cpu"])
def test_on_a_phone_what_was_run_and_why_a_row_has_no_figures_is_there_without_scrolling(
    name: str, browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    browser.open(pages(name), width=420)
    edge = "(one) => one.getBoundingClientRect().right > document.documentElement.clientWidth - 15"
    words = "[...document.querySelectorAll('#cells *, #about-rows, .flat small')]"
    assert browser.evaluate(f"{words}.filter({edge}).map((one) => one.textContent)") == []


def test_an_edge_behind_which_there_is_more_casts_a_shadow_that_scrolling_uncovers(
    browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    browser.open(pages("study-ladder-h200"), width=420)
    box = "document.querySelector('#table .scroll')"
    assert browser.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
    attached = browser.evaluate(f"getComputedStyle({box}).backgroundAttachment")
    assert attached.split(", ")[:4] == ["local", "local", "scroll", "scroll"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["profile", "tuning", "study-ladder-h200", "study-workers-h200"])
def test_text_stands_out_from_what_is_behind_it(
    name: str, dark: bool, browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    browser.open(pages(name), dark=dark)
    assert ask(browser, f"pale({LEAST_CONTRAST})") == []


def test_plots_take_the_colours_of_the_evening_when_it_comes(
    browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    ink = "getComputedStyle(document.querySelector('.xtick text')).fill"
    browser.open(pages("tuning"))
    by_day = browser.evaluate(ink)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.ask("Emulation.setEmulatedMedia", media="", features=[scheme])
    ask(browser, "settled()")
    assert browser.evaluate(ink) != by_day
    assert browser.complaints() == []


@pytest.mark.parametrize("name", ["profile", "tuning", "study-ladder-h200"])
def test_every_link_leads_to_its_place_and_the_first_key_past_them_all(
    name: str, browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    browser.open(pages(name))
    lost = "[...document.links].filter((one) => !document.querySelector(one.hash)).map(String)"
    assert browser.evaluate(lost) == []
    browser.press("Tab", 9)
    focus = "document.activeElement.textContent + document.activeElement.getClientRects()[0].left"
    assert re.match(r"To the content\d", browser.evaluate(focus))
    browser.press("Enter", 13)
    ask(browser, "settled()")
    assert browser.evaluate("location.hash") == "#content"


def test_without_scripts_the_words_below_a_plot_say_what_it_shows(
    browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    browser.open(pages("tuning"), scripts=False)
    read = browser.ask("DOM.getDocument", depth=-1)["root"]["nodeId"]
    found = browser.ask("DOM.querySelectorAll", nodeId=read, selector="noscript p, figcaption")
    assert len(found["nodeIds"]) == 4
    for node in found["nodeIds"]:
        box = browser.ask("DOM.getBoxModel", nodeId=node)["model"]
        assert box["height"] > 10


def test_a_printed_page_keeps_its_plots_on_the_paper_and_the_screen_gets_them_back(
    browser: chromium.Browser, pages: Callable[[str], Path]
) -> None:
    browser.open(pages("tuning"))
    widths = "[...document.querySelectorAll('[data-figure] svg')].map((one) => one.clientWidth)"
    on_screen = browser.evaluate(widths)
    browser.evaluate(f"addEventListener('beforeprint', () => {{ window.onPaper = {widths} }})")
    assert len(re.findall(rb"/Type\s*/Page\b", browser.printed())) > 1
    assert max(browser.evaluate("window.onPaper")) <= 680
    ask(browser, "settled()")
    assert browser.evaluate(widths) == on_screen


def test_nobodys_words_become_markup_or_run(browser: chromium.Browser, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(html.render(sample.tuning(command=(HOSTILE,), summary=HOSTILE)))
    browser.open(file)
    assert browser.complaints() == []
    assert browser.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert HOSTILE in browser.evaluate("document.body.innerText")
