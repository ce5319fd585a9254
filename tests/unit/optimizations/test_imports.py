"""What waits for a module of somebody else's."""

import importlib
import importlib.util
import sys

import pytest

from hotlap.optimizations import imports


@pytest.fixture
def late(tmp_path, monkeypatch):
    """A module that is there to be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    (tmp_path / "late_one.py").write_text("VALUE = 1\n")
    yield "late_one"
    sys.modules.pop("late_one", None)


def test_it_acts_when_the_module_has_been_run_and_not_before(late):
    told, before = [], list(sys.meta_path)
    imports.after(late, lambda module: told.append(module.VALUE))
    assert importlib.util.find_spec(late) is not None  # somebody only looks
    assert told == []
    module = importlib.import_module(late)
    assert told == [1]
    assert sys.meta_path == before
    importlib.reload(module)
    assert told == [1]


def test_it_acts_at_once_where_the_module_is_there(late):
    told = []
    module = importlib.import_module(late)
    imports.after(late, told.append)
    assert told == [module]


def test_two_may_wait_for_the_same(late):
    told = []
    imports.after(late, lambda module: told.append("first"))
    imports.after(late, lambda module: told.append("second"))
    importlib.import_module(late)
    assert sorted(told) == ["first", "second"]


def test_a_module_that_does_not_exist_is_still_none(late):
    imports.after("late_two", lambda module: None)
    with pytest.raises(ModuleNotFoundError, match="late_two"):
        importlib.import_module("late_two")
