"""A bar on a terminal, lines elsewhere."""

import hashlib
import io
import os

import pytest

from hotlap.data import progress
from hotlap.data.download import fetch

MB = 1_000_000


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(written):
    return [line.rstrip() for line in written.rstrip("\n").split("\r")[1:]]


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def run(stream, *, seconds=10, total=100 * MB):
    now = [0.0]
    with progress.shown("photos.tar", stream=stream, clock=lambda: now[0]) as tell:
        for step in range(100 * seconds + 1):
            now[0] = step / 100
            tell(total * step // (100 * seconds), total)


def test_a_terminal_gets_one_line_that_is_drawn_over(wide):
    terminal = Terminal()
    run(terminal)
    assert terminal.getvalue().count("\n") == 1
    assert terminal.getvalue().endswith("\n")
    told = drawn(terminal.getvalue())
    assert 90 <= len(told) <= 102
    assert told[0] == f"photos.tar   0% [{'-' * 40}] 0.0/100.0 MB"
    middle = told[len(told) // 2]
    assert " 50% [####################-----" in middle
    assert middle.endswith("/100.0 MB 10.0 MB/s 0:05 left")
    assert told[-1].endswith("100.0/100.0 MB 10.0 MB/s 0:00 left")


def test_it_never_passes_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    terminal = Terminal()
    run(terminal)
    assert max(map(len, terminal.getvalue().rstrip("\n").split("\r"))) <= 29


def test_the_line_is_ended_when_the_download_fails(wide):
    terminal = Terminal()

    def cut():
        with progress.shown("photos.tar", stream=terminal) as tell:
            tell(1, 100)
            raise OSError("cut")

    with pytest.raises(OSError, match="cut"):
        cut()
    assert terminal.getvalue().endswith("\n")


def test_what_is_no_terminal_gets_lines():
    file = io.StringIO()
    run(file)
    assert len(file.getvalue().splitlines()) == 11
    assert file.getvalue().splitlines()[5] == "photos.tar: 50 of 100 MB (50 %)"
    assert "\r" not in file.getvalue()


def test_a_download_to_a_terminal_draws_a_bar(monkeypatch, server, tmp_path, wide):
    server.content = os.urandom(3 * MB)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    digest = hashlib.sha256(server.content).hexdigest()
    fetch(server.url, tmp_path / "file", sha256=digest, size=3 * MB)
    assert "file 100% [" in terminal.getvalue()
    assert "3.0/3.0 MB" in terminal.getvalue()
