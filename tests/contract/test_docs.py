"""The docs say what the code does: generated pages are fresh, links lead somewhere, no option
and no default is left out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.rules import RULES
from hotlap.settings import Limits

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*DOCS.glob("*.md"), *DOCS.glob("rules/*.md")]
    + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def profile_help() -> str:
    return subprocess.run(
        [sys.executable, "-m", "hotlap", "profile", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    relative = [link for link in LINK.findall(text) if not re.match(r"[a-z]+:|#", link)]
    missing = [link for link in relative if not (page.parent / link.partition("#")[0]).exists()]
    assert not missing


def test_every_option_of_profile_is_on_its_page() -> None:
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", profile_help()))
    assert {"--steps", "--json", "--in-place"} <= options
    page = (DOCS / "profile.md").read_text()
    assert not [option for option in options if f"`{option}" not in page]


@pytest.mark.parametrize("option", ["steps", "seconds", "timeout"])
def test_the_defaults_on_the_page_are_those_of_the_code(option: str) -> None:
    row = re.search(rf"^\| `--{option} \w+` \| (\d+) \|", (DOCS / "profile.md").read_text(), re.M)
    assert row is not None
    assert float(row.group(1)) == getattr(Limits(), option)


def test_every_rule_has_its_page_in_the_index() -> None:
    index = (DOCS / "rules" / "index.md").read_text()
    for rule in RULES:
        assert f"[{rule.NAME}]({rule.NAME}.md)" in index
        assert (DOCS / "rules" / f"{rule.NAME}.md").is_file()


def test_the_environment_of_a_record_is_described() -> None:
    record = json.loads((ROOT / "tests/unit/data/profile-schema-1.json").read_text())
    page = (DOCS / "record.md").read_text()
    assert not [key for key in record["environment"] if f"`{key}`" not in page]
