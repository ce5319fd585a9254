"""Options of hotlap behind the command are told, unless the script itself knows the word."""

import pytest

from hotlap.cli import misplaced

OPTIONS = {"--seconds": True, "--json": True, "--in-place": False, "--steps": True}


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("parser.add_argument('--steps', default=max_seconds)\n")
    return "train.py"


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["--seconds", "5"], "hotlap profile --seconds 5 train.py"),
        (["--seconds=5", "--lr", "3"], "hotlap profile --seconds=5 train.py --lr 3"),
        (["a b", "--in-place", "c"], "hotlap profile --in-place train.py 'a b' c"),
        (["--json"], "hotlap profile --json train.py"),
    ],
)
def test_the_right_order_is_shown(script, words, right):
    said = misplaced.note("profile", OPTIONS, [script, *words])
    assert said.endswith(f"Options of hotlap stand before the command: {right}")
    assert f"stands behind {script}, so the script gets it" in said


def test_several_are_told_at_once(script):
    said = misplaced.note("tune", OPTIONS, ["python", script, "--in-place", "--json", "o.json"])
    assert said.startswith("--in-place and --json stand behind train.py, so the script gets them.")
    assert said.endswith("hotlap tune --in-place --json o.json python train.py")


@pytest.mark.parametrize(
    "command",
    [
        ["train.py"],
        ["train.py", "--steps", "5"],  # its own
        ["train.py", "--epochs", "--second", "5"],
        ["torchrun", "--seconds", "5", "train.py"],  # before the script: the launcher's
        ["missing.py", "--seconds", "5"],
        ["launch.sh", "--seconds", "5"],
        [],
    ],
)
def test_what_is_the_scripts_own_or_cannot_be_known_is_let_be(script, command):
    assert misplaced.note("profile", OPTIONS, command) is None
