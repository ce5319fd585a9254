"""Objects: samples from a filesystem, fetched in its event loop or by threads."""

import asyncio
import http.server
import operator
import os
import pickle
import signal
import sys
import threading
import warnings
from typing import ClassVar

import pytest
import torch
from torch.utils.data import DataLoader

from hotlap.data.failures import SampleError
from hotlap.data.remote import Objects

fsspec = pytest.importorskip("fsspec")
asyn = pytest.importorskip("fsspec.asyn")

FORKED_THREADS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


class Late(asyn.AsyncFileSystem):
    """An asynchronous store in which each object is its own name; `hook` may make it difficult."""

    protocol = "late"
    cachable = False
    hook = None
    asked: ClassVar[list] = []

    @classmethod
    def _strip_protocol(cls, path):
        return path.removeprefix("late://")

    async def _cat_file(self, path, start=None, end=None, **_):
        type(self).asked.append(path)
        if type(self).hook is not None:
            await type(self).hook(path)
        return path.encode()


@pytest.fixture
def late():
    fsspec.register_implementation("late", Late, clobber=True)
    Late.hook, Late.asked = None, []
    return Late


@pytest.fixture
def folder(tmp_path):
    for at in range(20):
        (tmp_path / f"{at}.bin").write_bytes(bytes([at]))
    return tmp_path


def names(count):
    return [f"{at}.bin" for at in range(count)]


first = operator.itemgetter(0)  # of the bytes, and also a spawned worker knows it


# What it fetches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [None, "fork", "spawn", "forkserver"])
@FORKED_THREADS
def test_a_folder_is_read_by_threads_in_every_kind_of_worker(folder, method):
    data = Objects(names(20), folder, decode=first, targets=range(20))
    assert data[3] == (3, torch.tensor(3))  # this process has opened it before the workers do
    loader = DataLoader(
        data, 6, num_workers=0 if method is None else 2, multiprocessing_context=method
    )
    batches = [(values.tolist(), targets.tolist()) for values, targets in loader]
    expected = [list(range(at, min(at + 6, 20))) for at in range(0, 20, 6)]
    assert batches == [(part, part) for part in expected]


@pytest.mark.parametrize("workers", [0, 2])
@FORKED_THREADS
def test_an_asynchronous_store_gives_batches_in_order(late, workers):
    data = Objects(names(20), "late://bucket/train", decode=len)
    assert data.__getitems__([1]) == [len("bucket/train/1.bin")]
    got = torch.cat(list(DataLoader(data, 8, num_workers=workers))).tolist()
    assert got == [len(f"bucket/train/{at}.bin") for at in range(20)]


def test_paths_may_be_urls_themselves(late, folder):
    assert Objects(["late://a/1", "late://b/2"]).__getitems__([1, 0]) == [b"b/2", b"a/1"]
    assert Objects([folder / "7.bin"])[0] == b"\x07"
    assert Objects([f"file://{folder}/7.bin"])[0] == b"\x07"


def test_a_whole_batch_is_on_its_way_at_once(late):
    waiting, all_here = [], []

    async def hook(path):
        if not all_here:
            all_here.append(asyncio.Event())
        waiting.append(path)
        if len(waiting) == 16:
            all_here[0].set()
        await all_here[0].wait()

    Late.hook = hook
    assert len(Objects(names(16), "late://b").__getitems__(range(16))) == 16


def test_no_more_at_once_than_allowed(late):
    now, most = [0], [0]

    async def hook(path):
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0)
        now[0] -= 1

    Late.hook = hook
    Objects(names(16), "late://b", at_once=3).__getitems__(range(16))
    assert most == [3]


def test_order_is_kept_whatever_comes_first(late):
    turns = {}

    async def hook(path):
        at = int(path.split("/")[1].split(".")[0])
        if at < 7:
            await turns.setdefault(at + 1, asyncio.Event()).wait()
        turns.setdefault(at, asyncio.Event()).set()

    Late.hook = hook
    assert Objects(names(8), "late://b").__getitems__(range(8)) == [
        f"b/{at}.bin".encode() for at in range(8)
    ]


def test_names_are_no_patterns_and_may_come_twice(late):
    data = Objects(["a[1]*.jpg", "b?c=d"], "late://b")
    assert data.__getitems__([0, 1, 0]) == [b"b/a[1]*.jpg", b"b/b?c=d", b"b/a[1]*.jpg"]
    assert data.__getitems__([]) == []


def test_http_is_fetched_asynchronously(folder, tmp_path):
    pytest.importorskip("aiohttp")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            data = Objects(names(21), f"http://127.0.0.1:{server.server_port}", decode=first)
            assert data._store.get().asynchronous
            assert data.__getitems__(range(20)) == list(range(20))
            with pytest.raises(SampleError, match="sample 20: FileNotFoundError: http://127"):
                data.__getitems__([1, 20])
        finally:
            server.shutdown()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_for_a_moment_is_asked_again(server, status):
    pytest.importorskip("aiohttp")
    server.content, server.answers = b"sample", [status, status]
    data = Objects([server.url], backoff=0)
    assert data.__getitems__([0]) == [b"sample"]
    assert len(server.requests) == 3


def test_a_server_that_refuses_is_not_asked_again(server):
    pytest.importorskip("aiohttp")
    server.answers = [403] * 9
    with pytest.raises(SampleError, match="403"):
        Objects([server.url], backoff=0).__getitems__([0])
    assert len(server.requests) == 1


# Processes ---------------------------------------------------------------------------------------


def test_each_process_opens_its_own_filesystem(late):
    data = Objects(names(4), "late://b", options={"batch_size": 7})
    here = data._store.get()
    assert here.filesystem.batch_size == 7
    again = pickle.loads(pickle.dumps(data))
    assert again._store.get() is not here
    assert again.__getitems__([2]) == [b"b/2.bin"]


def test_without_fsspec_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match="pip install fsspec"):
        Objects(["a"], "s3://bucket")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at_once": 0}, "at_once is 0"),
        ({"targets": [1]}, "1 targets for 2 paths"),
        ({"retries": 1.5}, "retries is 1.5"),
    ],
)
def test_wrong_options_are_named_with_their_value(options, said):
    with pytest.raises(ValueError, match=said):
        Objects(["a", "b"], "/", **options)


@pytest.mark.parametrize(
    ("paths", "options", "said"),
    [
        (3, {}, "paths is 3; it is a sequence of strings"),
        (["a"], {"targets": ["cat"]}, "give a number for each path"),
        (["a"], {"decode": 3}, "decode is 3; it is a function"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named_with_what_it_should_be(paths, options, said):
    with pytest.raises(TypeError, match=said):
        Objects(paths, "/", **options)


# Failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
def test_a_missing_object_stops_the_epoch_and_is_named(folder, workers):
    loader = DataLoader(Objects(names(21), folder, decode=first), 7, num_workers=workers)
    with pytest.raises(SampleError, match="sample 20: FileNotFoundError"):
        list(loader)


@pytest.mark.parametrize("where", ["late", "folder"])
def test_skipped_objects_are_counted(late, folder, where):
    async def hook(path):
        if path == "b/20.bin":
            raise FileNotFoundError(path)

    Late.hook = hook
    data = Objects(names(21), "late://b" if where == "late" else folder, on_error="skip")
    with pytest.warns(UserWarning, match="sample 20 is skipped"):
        assert len(data.__getitems__([3, 20, 4])) == 2
    assert data.failures.indices == [20]
    with pytest.raises(SampleError, match="every sample"):
        data.__getitems__([20])


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_what_cannot_be_decoded_is_a_failed_sample(folder, on_error):
    def decode(data):
        if data == b"\x02":
            raise ValueError("no image")
        return data[0]

    data = Objects(names(20), folder, decode=decode, on_error=on_error)
    with pytest.raises(SampleError, match="sample 2: ValueError: no image"):
        _ = data[2]
    if on_error == "raise":
        with pytest.raises(SampleError, match="sample 2: ValueError: no image"):
            data.__getitems__([1, 2, 3])
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert data.__getitems__([1, 2, 3]) == [1, 3]


def test_an_index_beyond_the_end_is_a_failed_sample_of_a_batch(folder):
    data = Objects(names(20), folder)
    with pytest.raises(SampleError, match="sample 20: IndexError: path 20 of 20"):
        data.__getitems__([1, 20])
    with pytest.raises(SampleError, match="sample a: TypeError"):
        data.__getitems__(["a"])
    assert len(list(data)) == 20  # a plain loop ends


def test_after_an_error_the_other_fetches_are_cancelled(late):
    cancelled = []

    async def hook(path):
        if path == "b/0.bin":
            await asyncio.sleep(0)
            raise ValueError("told")
        try:
            await asyncio.Event().wait()  # for ever
        except asyncio.CancelledError:
            cancelled.append(path)
            raise

    Late.hook = hook
    with pytest.raises(SampleError, match="sample 0: ValueError: told"):
        Objects(names(4), "late://b").__getitems__(range(4))
    assert sorted(cancelled) == ["b/1.bin", "b/2.bin", "b/3.bin"]


def test_an_interrupt_cancels_what_is_on_its_way(late):
    cancelled = []

    async def hook(path):
        if path == "b/0.bin":
            os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(path)
            raise

    Late.hook = hook
    with pytest.raises(KeyboardInterrupt):
        Objects(names(3), "late://b").__getitems__(range(3))
    assert len(cancelled) == 3


def test_an_object_that_never_comes_is_named_with_the_limit(late):
    async def hook(path):
        if path == "b/1.bin":
            await asyncio.Event().wait()

    Late.hook = hook
    data = Objects(names(3), "late://b", timeout=0.02)
    with pytest.raises(SampleError, match=r"sample 1: TookTooLong: no answer within 0.02 s"):
        data.__getitems__(range(3))


def test_a_time_out_of_the_store_itself_is_told_as_its_own(late):
    async def hook(path):
        raise asyn.FSTimeoutError("by the store")

    Late.hook = hook
    with pytest.raises(SampleError, match="FSTimeoutError: by the store"):
        Objects(["a"], "late://b", timeout=60, retries=0).__getitems__([0])


@pytest.mark.parametrize("times", [2, 9])
def test_hiccups_are_tried_again_and_giving_up_says_how_often(late, times):
    failed = []

    async def hook(path):
        if len(failed) < times:
            failed.append(path)
            raise ConnectionResetError(f"attempt {len(failed)}")

    Late.hook = hook
    data = Objects(["a"], "late://b", retries=2, backoff=0)
    if times == 2:
        assert data.__getitems__([0]) == [b"b/a"]
    else:
        with pytest.raises(SampleError, match=r"sample 0: GaveUp: .*attempt 3; tried 3 times"):
            data.__getitems__([0])
    assert len(Late.asked) == 3


def test_a_killed_worker_is_an_error_and_not_a_hang(folder, in_python):
    """Nothing catches it: torch's signal handler may raise anywhere, also in an `except`."""
    said = in_python(
        """
        import os, signal, sys
        from torch.utils.data import DataLoader
        from hotlap.data.remote import Objects

        def decode(data):
            if data[0] == 12:
                os.kill(os.getpid(), signal.SIGKILL)
            return data[0]

        data = Objects([f"{at}.bin" for at in range(20)], sys.argv[1], decode=decode)
        list(DataLoader(data, 5, num_workers=1))
        """,
        str(folder),
        fails=True,
    )
    assert "Error" in said  # and no more: the handler may break off its printing, too
