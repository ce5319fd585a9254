"""Scripts that are watched patch torch for good: each runs in a process of its own."""

import json
import textwrap

import pytest

from hotlap.settings import Limits


@pytest.fixture
def in_python(forked, tmp_path):
    """As the one for all, but with torch imported before the code begins."""

    def run(code: str, *arguments: str) -> str:
        ended = forked(textwrap.dedent(code), *arguments)
        output, errors = ((tmp_path / name).read_text() for name in ("stdout", "stderr"))
        assert ended == 0, output + errors
        return output

    return run


@pytest.fixture
def trial(tmp_path):
    folder = tmp_path / "trial"
    folder.mkdir()
    settings = {
        "limits": Limits(steps=30, guard_steps=12).as_dict(),
        "losses": True,
        "protected": [str(tmp_path)],
        "diverted": str(folder / "diverted"),
        "in_place": False,
        "started": 0.0,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder
