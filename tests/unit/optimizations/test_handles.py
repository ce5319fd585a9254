"""What is open in a data set is found wherever it is, and what is not open is no reason."""

import argparse
import functools
import io
import logging
import mmap
import multiprocessing
import socket
import sqlite3
import sys
import tempfile
import threading
import zipfile
from collections import deque
from types import SimpleNamespace

import numpy
import pytest
from torch.utils.data import ConcatDataset, Subset

from hotlap.data.untouched import left_as_it_was
from hotlap.optimizations import handles


class Holding:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __len__(self):
        return 3


class Slots:
    __slots__ = ("file",)

    def __init__(self, file):
        self.file = file


@functools.lru_cache
def remembered():
    return io.BytesIO(b"of a function")


class Remembering:
    def __getitem__(self, index):
        return remembered().read()


@functools.cache
def nothing_yet():
    return io.BytesIO()


class NothingYet:
    def __getitem__(self, index):
        return nothing_yet()


@pytest.fixture
def file(tmp_path):
    (tmp_path / "blob").write_bytes(bytes(9000))
    with open(tmp_path / "blob", "rb") as opened:
        yield opened


class FromElsewhere:
    """As a library would make it."""


FromElsewhere.__module__ = "h5py._hl.files"

PLACES = {
    "attribute": lambda file: Holding(file=file),
    "list": lambda file: Holding(files=[None, file]),
    "dict": lambda file: Holding(files={"a": (file,)}),
    "deque": lambda file: Holding(files=deque([file])),
    "namespace": lambda file: Holding(args=argparse.Namespace(file=file)),
    "simple namespace": lambda file: Holding(args=SimpleNamespace(file=file)),
    "slots": lambda file: Holding(reader=Slots(file)),
    "wrapped": lambda file: Subset(ConcatDataset([Holding(file=file)]), [0]),
    "closure": lambda file: Holding(read=lambda: file.read()),
    "default": lambda file: Holding(read=lambda file=file: file.read()),
    "method": lambda file: Holding(read=file.read, held=Holding(file=file).__len__),
    "partial": lambda file: Holding(read=functools.partial(print, file=file)),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_open_file_is_found_wherever_it_is(file, place):
    found = handles.held(PLACES[place](file))
    assert found is not None
    assert found.endswith("is an open BufferedReader")


def test_every_kind_is_found(file, tmp_path):
    with (
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        socket.socket() as connection,
        tempfile.NamedTemporaryFile() as named,
        tempfile.SpooledTemporaryFile() as spooled,
        zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive,
    ):
        database = sqlite3.connect(":memory:")
        numpy.savez(tmp_path / "arrays.npz", a=numpy.zeros(3))
        arrays = numpy.load(tmp_path / "arrays.npz")
        pipe, other_end = multiprocessing.Pipe()
        for one in (
            pipe,
            mapped,
            connection,
            named,
            spooled,
            archive,
            database,
            arrays,
            FromElsewhere(),
        ):
            assert handles.held(Holding(one=one)) is not None, one
        pipe.close()
        other_end.close()
        database.close()
        arrays.close()


def test_what_a_function_remembers_is_found():
    remembered()
    assert "BytesIO" in handles.held(Remembering())


def test_a_ring_has_an_end(file):
    ring = Holding()
    ring.itself = [ring]
    assert handles.held(ring) is None
    ring.file = file
    assert handles.held(ring) == "file is an open BufferedReader"


def test_what_is_no_reason_is_none(tmp_path, file):
    own = threading.local()
    own.file = file
    with open(tmp_path / "other", "w+") as closed:
        pass
    (tmp_path / "array").write_bytes(bytes(64))
    with open(tmp_path / "log", "w") as written:
        fine = Holding(
            of_each_thread=own,
            closed=closed,
            written=written,
            said=sys.stderr,
            logger=logging.getLogger("hotlap"),
            lock=threading.Lock(),
            array=numpy.memmap(tmp_path / "array"),
            paths=[str(number) for number in range(5000)],
        )
        assert handles.held(fine) is None
    assert handles.held(NothingYet()) is None


def test_attributes_are_afterwards_what_they_were(file):
    inner = Holding(file=None)
    outer = Subset(inner, [0])
    with left_as_it_was(outer):
        inner.file, outer.more = file, 1
    assert inner.file is None
    assert not hasattr(outer, "more")
