"""With a terminal of its own the command gets one too, and the user a line that moves."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from scripted import SCRIPTS, clean_environment


def in_terminal(*words: str, out: Path, columns: int = 100) -> tuple[int, str]:
    """Runs hotlap on a pseudo-terminal, as a person would; its code and all it drew."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = clean_environment(TERM="xterm-256color")
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [*(sys.executable, "-m", "hotlap", "profile", "--seconds", "2", "--out", str(out)), *words],
        cwd=SCRIPTS,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    drawn = b""
    while True:
        try:
            received = os.read(master, 65536)
        except OSError:
            break
        if not received:
            break
        drawn += received
    os.close(master)
    return process.wait(timeout=200), drawn.decode(errors="replace")


def test_a_script_gets_the_terminals_width_and_its_user_a_line_that_moves(tmp_path: Path) -> None:
    code, drawn = in_terminal("progress_bar.py", out=tmp_path, columns=117)
    assert code == 0, drawn
    log = next(iter(tmp_path.glob("*/baseline/output.log"))).read_text(errors="replace")
    assert log.strip(), "its progress bar went to the trial's log"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    assert "of every" in plain or "of a step" in plain
    assert "starting" in drawn
    assert "timing steps" in drawn or "timing phases" in drawn
    assert "\x1b[" in drawn, "and the report has colours"
