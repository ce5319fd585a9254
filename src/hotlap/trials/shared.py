"""Folders that belong to the system or to everyone: covering them breaks more than it saves."""

from __future__ import annotations

from hotlap.trials.overlay import inside

_SHARED = {"/", "/tmp", "/var", "/var/tmp", "/home", "/mnt", "/media", "/srv", "/opt"}
_SYSTEM = ("/dev", "/proc", "/sys", "/run", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")


def is_system(folder: str) -> bool:
    return any(inside(folder, one) for one in _SYSTEM)


def is_shared(folder: str) -> bool:
    return folder in _SHARED or is_system(folder)
