"""What holds for every study: its page, its plan in every setting, its words on every outcome."""

from __future__ import annotations

import inspect
import itertools
import re
from types import ModuleType
from typing import Any

import pytest

from hotlap import answers
from hotlap.answers import Called, Done
from hotlap.recipes import Recipe
from hotlap.studies import STUDIES, named
from hotlap.studies.study import Results, Setting

SECTIONS = ["What it shows", "How it is measured", "How to read it", "When it misleads"]
UNITS = {"", "seconds", "bytes", "rate", "share", "ratio", "number", "accuracy", "decimal"}
MOST_QUICK_CELLS = 4  # importing torch alone takes seconds in each
SETTINGS = [
    Setting(quick=quick, device=device, data=data, images="/cache", epochs=epochs, cores=cores)
    for quick, device, (data, epochs), cores in itertools.product(
        (True, False), ("cpu", "cuda"), ((None, None), ("/images.tar", 3)), (1, 2, 16)
    )
]


def setting_id(one: Setting) -> str:
    size = "quick" if one.quick else "full"
    return f"{size}-{one.device}-{'real' if one.data else 'made'}-{one.cores}"


each = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.NAME)
in_each = pytest.mark.parametrize("setting", SETTINGS, ids=setting_id)


def test_names_are_unique_and_find_their_study() -> None:
    assert len({study.NAME for study in STUDIES}) == len(STUDIES)
    for study in STUDIES:
        assert named(study.NAME) is study


@each
def test_its_docstring_is_its_page(study: Any) -> None:
    assert isinstance(study, ModuleType)
    title, _, body = (inspect.getdoc(study) or "").partition("\n\n")
    assert "\n" not in title
    assert title.endswith((".", "?"))
    assert re.findall(r"^## (.+)$", body, re.MULTILINE) == SECTIONS
    assert study.QUESTION.endswith("?")
    assert study.__name__.rpartition(".")[2] == study.NAME.replace("-", "_")


@each
def test_its_columns_have_known_units_and_names_of_their_own(study: Any) -> None:
    assert {column.unit for column in study.COLUMNS} <= UNITS
    assert len({column.name for column in study.COLUMNS}) == len(study.COLUMNS)


@each
@in_each
def test_its_plan_can_be_run_in_every_setting(study: Any, setting: Setting) -> None:
    plan = study.plan(setting)
    assert len({(cell.row, cell.run) for cell in plan}) == len(plan)
    assert len({cell.row for cell in plan}) >= 2
    if setting.quick:
        assert len([cell for cell in plan if not cell.skip]) <= MOST_QUICK_CELLS
    for cell in plan:
        assert 0 < cell.limit_seconds <= 1800
        if isinstance(cell, Called):
            module, _, function = cell.function.partition(":")
            assert module
            assert function
        else:
            assert all(isinstance(word, str) for word in cell.words)
            Recipe(cell.recipe)


@each
def test_threads_of_a_quick_network_are_not_left_to_who_else_runs(study: Any) -> None:
    """Two that wait for each other beside a busy neighbour are many times slower than one."""
    for cell in study.plan(Setting(quick=True, cores=2)):
        if not isinstance(cell, Called) and not cell.skip:
            assert "OMP_NUM_THREADS" in cell.variables or "threads" in cell.recipe


@each
def test_the_seeds_that_are_asked_for_are_the_runs_of_a_row(study: Any) -> None:
    plan = study.plan(Setting(quick=True, cores=2, seeds=3))
    counts = {row: sum(cell.row == row for cell in plan) for row in {cell.row for cell in plan}}
    assert set(counts.values()) <= {1, 3}
    assert 3 in counts.values()


@each
@pytest.mark.parametrize("quick", [True, False])
def test_it_has_words_where_nothing_was_measured(study: Any, quick: bool) -> None:
    setting = Setting(quick=quick, cores=4)
    plan = study.plan(setting)
    failed = [Done(cell=cell, status=answers.FAILED, reason="planted") for cell in plan]
    for done in ([], failed[:1], failed):
        results = Results(plan, done)
        rows = study.tabulate(setting, results)
        assert [row.name for row in rows] == results.rows
        assert not any(row.good or row.best for row in rows)
        assert not study.proven(rows)
        assert study.read(setting, rows).startswith("Nothing was measured")
        assert study.draw(setting, rows, results) == ()


@each
def test_it_has_words_where_figures_are_not_what_was_expected(study: Any) -> None:
    setting = Setting(quick=True, cores=4)
    plan = study.plan(setting)
    for figures in ({}, {"epochs": []}, {"epochs": [{"epoch": 1}]}):
        done = [Done(cell=cell, status=answers.MEASURED, figures=figures) for cell in plan]
        results = Results(plan, done)
        rows = study.tabulate(setting, results)
        assert study.read(setting, rows)
        study.draw(setting, rows, results)
