"""What every watched interpreter starts with, tried on a torch that is none."""

import ast
import os
import subprocess
import sys

import pytest

from hotlap.trials import bootstrap_folder, kept_out


@pytest.fixture
def python(tmp_path):
    """Runs code as the command would be run, with `lib` on the user's own PYTHONPATH."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "trial").mkdir()

    def run(code, *, trial=True):
        environment = {name: value for name, value in os.environ.items() if name != "HOTLAP_TRIAL"}
        path = [str(bootstrap_folder()), str(tmp_path / "lib")]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        if trial:
            environment["HOTLAP_TRIAL"] = str(tmp_path / "trial")
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=200,
        )

    return run


def test_an_interpreter_without_torch_loads_nothing_of_ours(python):
    done = python("import sys; print([name for name in sys.modules if 'hotlap' in name])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_bootstrap_folder_is_off_the_path_when_the_program_starts(python, tmp_path):
    done = python("import sys; print(*sys.path, sep='\\n')")
    assert str(bootstrap_folder()) not in done.stdout.splitlines()
    assert str(tmp_path / "lib") in done.stdout.splitlines()


def test_the_users_own_sitecustomize_runs_and_is_the_one_imported(python, tmp_path):
    (tmp_path / "lib" / "sitecustomize.py").write_text("MINE = 'ran'\n")
    done = python("import sitecustomize; print(sitecustomize.MINE)")
    assert (done.stdout.strip(), done.stderr) == ("ran", "")


def test_a_users_sitecustomize_that_fails_says_so_as_it_always_did(python, tmp_path):
    (tmp_path / "lib" / "sitecustomize.py").write_text("import no_such_module_anywhere\n")
    done = python("print('went on')")
    assert done.stdout.strip() == "went on"
    assert "no_such_module_anywhere" in done.stderr


def test_outside_a_trial_imports_are_not_followed(python):
    code = "import sys; print([type(finder).__name__ for finder in sys.meta_path])"
    assert "_Waiter" not in python(code, trial=False).stdout
    assert "_Waiter" in python(code).stdout


def test_a_torch_that_cannot_be_watched_is_imported_all_the_same(python, tmp_path):
    (tmp_path / "lib" / "torch").mkdir()
    (tmp_path / "lib" / "torch" / "__init__.py").write_text("__version__ = 'none'\n")
    done = python("import torch; print(torch.__version__, torch.__spec__.name)")
    assert (done.stdout.strip(), done.stderr) == ("none torch", "")
    (note,) = (tmp_path / "trial").glob("bootstrap-*.txt")
    assert "Traceback" in note.read_text()


def test_a_torch_that_fails_by_itself_fails_as_it_always_did(python, tmp_path):
    (tmp_path / "lib" / "torch.py").write_text("raise ImportError('libcudart is missing')\n")
    done = python("import torch")
    assert done.returncode == 1
    assert "ImportError: libcudart is missing" in done.stderr
    assert list((tmp_path / "trial").iterdir()) == []


def test_any_python_from_3_6_on_can_read_it():
    source = (bootstrap_folder() / "sitecustomize.py").read_text()
    tree = ast.parse(source, feature_version=(3, 6))
    imported = [one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]
    assert "__future__" not in imported  # of annotations: there from 3.7 on


def test_a_python_that_is_too_old_is_left_alone_and_named(python, tmp_path):
    (tmp_path / "lib" / "torch.py").write_text("")
    done = python(
        "import sys\n"
        "type(sys.meta_path[0])._follow.__globals__['_OLDEST'] = (99, 1)\n"
        "import torch; print([name for name in sys.modules if 'hotlap' in name])"
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    outside = kept_out.read(tmp_path / "trial")
    here = ".".join(map(str, sys.version_info[:3]))
    assert f"runs on Python {here}, and hotlap can be in there from 99.1 on" in outside.why
    assert outside.in_words


def test_a_torch_that_cannot_be_watched_is_noted_and_runs_on(python, tmp_path):
    (tmp_path / "lib" / "torch.py").write_text("")
    done = python("import torch; print('went on')")  # there are no settings
    assert (done.stdout.strip(), done.stderr) == ("went on", "")
    outside = kept_out.read(tmp_path / "trial")
    assert outside.why.startswith("FileNotFoundError")
    assert not outside.in_words
