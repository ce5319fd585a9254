"""Open files and connections that a data set holds.

Threads that share one move each other's place in it and read each other's data, and so do workers,
which are forked with it.
"""

from __future__ import annotations

import io
import mmap
import socket
import sys
import tarfile
import tempfile
import zipfile
from typing import Any

from hotlap import origins
from hotlap.data.reached import reached

KINDS = (
    *(io.IOBase, tempfile._TemporaryFileWrapper, tempfile.SpooledTemporaryFile),
    *(mmap.mmap, zipfile.ZipFile, tarfile.TarFile),
    socket.socket,
)
IN_MEMORY = (io.BytesIO, io.StringIO, mmap.mmap)  # each process has a place of its own in these
LIBRARIES = ("sqlite3", "h5py", "tables", "netCDF4", "lmdb", "av", "decord", "rasterio", "pysam")
PIPES = "multiprocessing.connection"


def held(dataset: Any, *, by_workers: bool = False) -> str | None:
    """Where in a data set an open one is, and of which kind; None if none was found."""
    for where, value in reached(dataset):
        if _is_handle(value) and not (by_workers and isinstance(value, IN_MEMORY)):
            return f"{where or 'it'} is an open {type(value).__name__}"
    return None


def _is_handle(value: Any) -> bool:
    if origins.library(type(value)) in LIBRARIES or origins.module(type(value)) == PIPES:
        return True
    if not isinstance(value, KINDS) or value in (sys.stdin, sys.stdout, sys.stderr):
        return False
    readable = getattr(value, "readable", None)
    try:
        return not getattr(value, "closed", False) and (readable is None or bool(readable()))
    except (ValueError, OSError):  # closed, or half open
        return False
