"""The docs say what the code does: generated pages are fresh, links lead somewhere, no option,
no default, no status and no optimization is left out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hotlap import answers, comparisons, tunings
from hotlap.api.tuning import TIMED
from hotlap.cli import app
from hotlap.optimizations import OPTIMIZATIONS
from hotlap.probes import losses
from hotlap.probes.schedule import FEWEST_GUARDED, MOST_GUARDED
from hotlap.recipes import FILE
from hotlap.reports import tuning as report
from hotlap.rules import RULES
from hotlap.search import book, comparing, guarding, judging, planning, tuner
from hotlap.settings import Limits
from hotlap.studies import STUDIES
from hotlap.trials.folder import HOME

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*DOCS.glob("*.md"), *DOCS.glob("rules/*.md"), *DOCS.glob("optimizations/*.md")]
    + sorted([*DOCS.glob("data/*.md"), *DOCS.glob("studies/*.md")])
    + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
VERBS = ("profile", "tune", "run", "study", "report", "compare")
# Defaults that the code only comes to when it is called: what the page says instead of "none".
WORDS = {
    ("profile", "--steps"): f"{Limits().steps:g}",
    ("profile", "--seconds"): f"{Limits().seconds:g}",
    ("profile", "--timeout"): f"{Limits().timeout:g}",
    ("profile", "--out"): f"`./{HOME}`",
    ("tune", "--out"): f"`./{HOME}`",
    ("study", "--out"): f"`./{HOME}`",
    ("run", "--recipe"): f"`./{FILE}`",
}


def options(verb: str) -> dict[str, Any]:
    """Each option of a verb with its default, as the command line has them."""
    command: Any = typer.main.get_command(app)
    return {
        option.opts[-1]: option.default
        for option in command.commands[verb].params
        if option.param_type_name == "option" and option.name != "help"
    }


def named(verb: str) -> list[str]:
    """Each option of a verb as it is typed, with the name of its value."""
    command: Any = typer.main.get_command(app)
    return [
        f"{option.opts[-1]} {option.metavar or ''}".strip()
        for option in command.commands[verb].params
        if option.param_type_name == "option" and option.name != "help"
    ]


EVERY_OPTION = [(verb, name, default) for verb in VERBS for name, default in options(verb).items()]


def page(verb: str) -> str:
    return (DOCS / f"{verb}.md").read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_and_the_page_of_a_verb_name_its_options_alike(verb: str) -> None:
    rows = re.findall(r"^\| `(--[^`]+)` \|", page(verb), flags=re.MULTILINE)
    assert sorted(rows) == sorted(named(verb))
    usage = CliRunner().invoke(app, [verb, "--help"]).output.splitlines()[0]
    assert page(verb).splitlines()[3] == f"hotlap {usage[usage.index(verb) :]}"


def shown(verb: str, name: str, default: Any) -> str:
    """A default as the table of the page has it."""
    if (verb, name) in WORDS:
        return WORDS[verb, name]
    if default is None or default == []:
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, (int, float)):
        return f"{default:g}"
    return f"`{getattr(default, 'value', default)}`"


def headings(text: str) -> set[str]:
    """The anchors GitHub makes of a page's headings."""
    found = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    missing = []
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in headings(target.read_text())):
            missing.append(link)
    assert not missing


def test_every_verb_has_its_page_in_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    assert [verb for verb in VERBS if f"[{verb}]({verb}.md)" not in index] == []


@pytest.mark.parametrize(("verb", "name", "default"), EVERY_OPTION)
def test_every_option_is_on_its_page_with_its_default(verb: str, name: str, default: Any) -> None:
    row = re.search(rf"^\| `{name}(?: [A-Z]+)?` \| ([^|]+) \|", page(verb), re.MULTILINE)
    assert row is not None
    assert row.group(1) == shown(verb, name, default)


@pytest.mark.parametrize("verb", VERBS)
def test_no_page_has_an_option_that_is_not_there(verb: str) -> None:
    rows = re.findall(r"^\| `(--[a-z-]+)", page(verb), re.MULTILINE)
    assert sorted(rows) == sorted(options(verb))


@pytest.mark.parametrize("status", tunings.STATUSES)
def test_every_status_is_explained(status: str) -> None:
    row = re.search(rf"^\| `{status}` \| (.+) \| (yes|no) \|$", page("tune"), re.MULTILINE)
    assert row is not None
    assert row.group(1).endswith(".")


def test_no_status_is_explained_that_is_not_there() -> None:
    table = page("tune").partition("### Statuses")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(tunings.STATUSES)


# What docs/tune.md says in figures, as the code has it.
FIGURES = (
    f"{TIMED.guard_steps} of them, more while they fit into {TIMED.guard_fill:g} s "
    f"({MOST_GUARDED} at most), and fewer if they take {TIMED.guard_seconds:g} s",
    f"{TIMED.guard_steps} to {MOST_GUARDED}; more where a step",
    f"but {FEWEST_GUARDED} at least",
    f"never fewer than the {guarding.LEAST_STEPS} it takes",
    f"less than {({5: 'five'})[int(guarding.BLATANT)]} times as much",
    f"windows of {TIMED.window_seconds:g} s",
    f"agree within {TIMED.tolerance * 100:g} %, for {TIMED.seconds:g} s at most",
    f"an interval of {(2 * comparing.ACCEPTED - 1) * 100:.1f} % lies",
    f"a spread of {comparing.PRIOR_SPREAD * 100:g} % is assumed",
    f"{comparing.PRIOR_SPREAD_OF_PROCESSES * 100:g} % for the memory of processes",
    f"{comparing.PRIOR_SPREAD_OF_DEVICES * 100:g} % on a GPU",
    f"What is below {planning.WORTH_TRYING * 100:g} % is not tried",
    f"at least {planning.WORTH_BUNDLING * 100:g} % of the step",
    f"below {judging.WORTH_MORE_RUNS:g} it is done",
    f"still seems {(judging.WORTH_ANOTHER_LOOK - 1) * 100:.0f} % better than the best",
    f"less than {(judging.WORTH_ANOTHER_LOOK - 1) * 100:.0f} % after all "
    f"(less than {(judging.WORTH_KEEPING - 1) * 100:.0f} % in the runs since it was chosen), "
    f"or has {({8: 'eight'})[judging.MOST_WHEN_AGAIN]} runs",
    f"the best is run until it has {({3: 'three'})[tuner.FINAL_RUNS]} runs",
    f"after {({120: 'two'})[book.PATIENT_SECONDS]} minutes, or after {book.PATIENT_TIMES:g} times",
    f"more than {(tuner.MOVES_THE_BOTTLENECK - 1) * 100:.0f} % makes a new diagnosis",
    f"differ by more than {(tuner.AGREE_WITHIN - 1) * 100:.0f} %",
    f"contributes {(judging.WORTH_KEEPING - 1) * 100:.0f} % or more",
    f"at least {(judging.SMALLER_BY - 1) * 100:.0f} % less memory at the peak",
    f"at most {judging.SLOWEST_FOR_MEMORY:g} times slower",
    f"{book.OTHERS_DISTURB_FROM * 100:g} % of the machine",
    f"not before {book.LEAST_SECONDS:g} s",
    f"Fewer than {guarding.LEAST_STEPS} steps",
    f"{guarding.OF_LOSS * 100:g} % of the loss",
    f"a step takes {losses.CLONE_IS_FELT_BELOW * 1000:g} ms or more",
    f"from {report.WIDE_FOR_RATE} columns on",
    f"from {report.WIDE_FOR_MEMORY} columns on",
    f"from {report.WIDE_FOR_START} columns on",
)


@pytest.mark.parametrize("figure", FIGURES)
def test_the_figures_of_tuning_are_those_of_the_code(figure: str) -> None:
    assert figure in " ".join(page("tune").split())


def test_every_outcome_of_a_comparison_is_explained_and_no_others() -> None:
    table = page("compare").partition("### Outcomes")[2].partition("## ")[0]
    rows = re.findall(r"^\| ((?:`[a-z ]+`(?:, )?)+) \|", table, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([a-z ]+)`", row)]
    assert sorted(named) == sorted(comparisons.OUTCOMES)


def test_every_rule_has_its_page_in_the_index() -> None:
    index = (DOCS / "rules" / "index.md").read_text()
    for rule in RULES:
        assert f"[{rule.NAME}]({rule.NAME}.md)" in index
        assert (DOCS / "rules" / f"{rule.NAME}.md").is_file()


def test_every_optimization_has_its_page_in_the_index() -> None:
    index = (DOCS / "optimizations" / "index.md").read_text()
    for one in OPTIMIZATIONS:
        assert f"[{one.NAME}]({one.NAME}.md)" in index
        text = (DOCS / "optimizations" / f"{one.NAME}.md").read_text()
        assert f"| numerics | `{one.NUMERICS}`" in text
        assert all(f"`{name}`" in text for name in one.SETTINGS)
        assert all(f"({name}.md)" in text for name in (*one.CONFLICTS, *one.NEEDS))


def test_every_study_has_its_page_in_the_index() -> None:
    index = (DOCS / "studies" / "index.md").read_text()
    for study in STUDIES:
        assert f"[{study.NAME}]({study.NAME}.md) | {study.QUESTION}" in index
        text = (DOCS / "studies" / f"{study.NAME}.md").read_text()
        assert all(column.title in text for column in study.COLUMNS)


def test_the_statuses_of_a_study_are_explained_and_no_others() -> None:
    table = page("study").partition("### Statuses")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(answers.STATUSES)


def test_the_environment_of_a_record_is_described() -> None:
    record = json.loads((ROOT / "tests/unit/data/profile-schema-1.json").read_text())
    text = (DOCS / "record.md").read_text()
    keys = {*record["environment"], "capability", "script"}
    assert not [key for key in keys if f"`{key}`" not in text]
