"""Running a command under watch: the folder, the supervisor, the bootstrap, the telemetry."""

from __future__ import annotations

from pathlib import Path


def bootstrap_folder() -> Path:
    return Path(__file__).parent / "bootstrap"
