"""Properties are checked on the same examples every time, and leave no files in the checkout."""

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "hotlap-hypothesis")
settings.register_profile("hotlap", database=None, deadline=None, derandomize=True)
settings.load_profile("hotlap")


@pytest.fixture
def in_python(tmp_path):
    """Runs code in a fresh interpreter, which may patch torch as it likes; answers its output.

    With `fails`, the code has to end with an error nobody caught, and its traceback is answered.
    """

    def run(code: str, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )
        assert done.returncode == int(fails), done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    return run
