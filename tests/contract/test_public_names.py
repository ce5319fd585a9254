"""What people import and type is a promise: it changes only on purpose."""

import inspect
import json
import subprocess
import sys
from typing import Any, get_type_hints

import pytest

import hotlap
import hotlap.data
from hotlap.cli import app

HEAVY = {"torch", "scipy", "plotly", "jinja2", "numpy", "pandas", "matplotlib"}
VERBS = ("profile", "tune", "run", "study", "report", "compare")


def test_the_public_names_are_these_and_no_others():
    assert hotlap.__all__ == [
        "Answer",
        "CommandFailed",
        "Comparison",
        "Finding",
        "HotlapError",
        "Interrupted",
        "NothingMeasured",
        "Profile",
        "Recipe",
        "RecordError",
        "Tuning",
        "UsageError",
        "Verdict",
        "__version__",
        "compare",
        "load",
        "profile",
        "run",
        "study",
        "tune",
    ]


def test_the_names_of_data_are_there_and_load_no_torch_before_they_are_used():
    assert dir(hotlap.data) == sorted(hotlap.data.__all__)
    for name in hotlap.data.__all__:
        assert getattr(hotlap.data, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Cache'"):
        _ = hotlap.data.Cache
    loaded, _ = loaded_by("import hotlap.data, hotlap.data.advice, hotlap.optimizations")
    assert not HEAVY & loaded


def test_dir_shows_the_public_names():
    assert dir(hotlap) == sorted(hotlap.__all__)


@pytest.mark.parametrize("name", hotlap.__all__)
def test_every_public_name_is_there(name):
    assert getattr(hotlap, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'optimize'"):
        _ = hotlap.optimize


def loaded_by(code):
    """The modules an interpreter of its own holds when the code has run."""
    watch = "import atexit, json, sys\natexit.register(lambda: print(json.dumps([*sys.modules])))\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", watch + code],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    *shown, names = done.stdout.splitlines()
    return set(json.loads(names)), "\n".join(shown)


def test_importing_hotlap_imports_nothing_of_its_own():
    loaded, _ = loaded_by("import hotlap")
    assert "hotlap" in loaded
    assert {name for name in loaded if name.startswith("hotlap.")} == set()
    assert loaded & {*HEAVY, "msgspec", "psutil", "rich", "typer"} == set()


def test_the_records_are_read_without_torch():
    loaded, _ = loaded_by(
        "import hotlap; hotlap.load; hotlap.Profile; hotlap.Tuning; hotlap.Recipe; hotlap.Answer; "
        "hotlap.HotlapError"
    )
    assert {"hotlap.records", "hotlap.tunings", "hotlap.recipes"} <= loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)], ids=" ".join
)
def test_the_command_line_answers_without_torch(arguments):
    words = ["hotlap", *arguments]
    loaded, shown = loaded_by(
        f"sys.argv = {words!r}\nimport runpy\nrunpy.run_module('hotlap', run_name='__main__')"
    )
    assert "hotlap.cli" in loaded
    assert "hotlap" in shown
    assert loaded & HEAVY == set()


def test_the_verbs_are_the_ones_with_a_help():
    _, shown = loaded_by(
        "sys.argv = ['hotlap', '--help']\n"
        "import runpy\nrunpy.run_module('hotlap', run_name='__main__')"
    )
    commands = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in commands if line.strip()] == list(VERBS)


def test_the_verbs_are_loaded_without_torch():
    loaded, _ = loaded_by(
        "import hotlap; hotlap.profile; hotlap.tune; hotlap.run; hotlap.study; "
        "hotlap.compare; hotlap.Comparison"
    )
    assert "hotlap.api" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_says_what_it_is_called(verb):
    """typer 0.27 makes --DEVICE of a parameter `device` whose value is called DEVICE."""
    told = next(one for one in app.registered_commands if one.name == verb).callback
    hints: dict[str, Any] = get_type_hints(told, include_extras=True)
    for name in inspect.signature(told).parameters:
        (about,) = hints[name].__metadata__
        if type(about).__name__ == "OptionInfo":
            called = [about.default, *about.param_decls]  # typer takes the first for a default
            assert called == [f"--{name.removesuffix('_them').replace('_', '-')}"]
