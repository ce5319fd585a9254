import json
import os
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

import hotlap
from hotlap.probes import places


def line():
    return sys._getframe(1).f_lineno


def test_a_line_of_the_users_own_is_named_with_its_function():
    place, expected = places.here(), line()
    assert place == (__file__, expected, "test_a_line_of_the_users_own_is_named_with_its_function")


def test_depth_skips_the_callers_that_ask():
    def ask():
        return places.here(2)

    place, expected = ask(), line()
    assert place[1] == expected


def test_a_frame_in_a_library_is_named_by_the_user_line_that_called_it():
    seen = []

    def default(value):
        seen.append(places.of(sys._getframe(1)))
        return None

    json.dumps(object(), default=default)
    assert seen[0][0] == __file__
    assert seen[0][2] == "test_a_frame_in_a_library_is_named_by_the_user_line_that_called_it"


@pytest.mark.parametrize(
    "file",
    [
        "<frozen importlib._bootstrap>",
        "<string>",
        json.__file__,
        os.path.join(sysconfig.get_path("purelib"), "torch", "nn", "modules", "linear.py"),
        "/opt/other/lib/python3.11/site-packages/lightning/loop.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        str(Path(hotlap.__file__).parent / "probes" / "places.py"),
    ],
)
def test_libraries_and_hotlap_itself_are_not_the_users(file):
    assert not places.is_users(file)


@pytest.mark.parametrize(
    "file", ["/home/user/train.py", "train.py", "/home/user/hotlap_copy/train.py", __file__]
)
def test_everything_else_is_the_users(file):
    assert places.is_users(file)


def test_the_script_that_was_started_is_the_users_wherever_it_lies(monkeypatch):
    file = "/opt/lib/python3.11/site-packages/package/__main__.py"
    assert not places._decide(file)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
    assert places._decide(file)


def test_a_launcher_of_torch_is_not_the_users_even_as_the_script_started(monkeypatch):
    file = "/opt/lib/python3.11/site-packages/torch/distributed/run.py"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
    assert not places._decide(file)


def test_no_frame_has_no_place():
    assert places.of(None) is None


def test_library_frames_all_the_way_up_have_no_place(monkeypatch):
    monkeypatch.setattr(places, "is_users", lambda filename: False)
    monkeypatch.setattr(places, "_cache", {})
    assert places.here() is None


def test_a_frame_that_is_on_no_line_is_on_its_first():
    """Python 3.11 and later: an instruction the compiler made has no line of its own."""
    code = SimpleNamespace(co_filename=__file__, co_firstlineno=7, co_name="train")
    frame = SimpleNamespace(f_code=code, f_lineno=None, f_back=None)
    assert places.of(frame) == (__file__, 7, "train")
