"""Scripts that are watched patch torch for good: each runs in a process of its own."""

import textwrap

import pytest


@pytest.fixture
def in_python(forked, tmp_path):
    """As the one for all, but with torch imported before the code begins."""

    def run(code: str, *arguments: str) -> str:
        ended = forked(textwrap.dedent(code), *arguments)
        output, errors = ((tmp_path / name).read_text() for name in ("stdout", "stderr"))
        assert ended == 0, output + errors
        return output

    return run
