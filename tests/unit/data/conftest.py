"""A web server that can be as good or as bad as a test wants it, and no workers left over."""

from __future__ import annotations

import gc
import http.server
import io
import multiprocessing
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter


@pytest.fixture(autouse=True)
def _no_workers_left() -> Iterator[None]:
    """A loader that an error stopped is part of a cycle, and the collector comes in a later test.

    Its queues are collected first, and torch waits five seconds for workers that nobody can tell.
    Ending the workers by a signal is no way out: one that just then holds a lock keeps it for ever.
    """
    yield
    if not multiprocessing.active_children():
        return
    for one in gc.get_objects():
        if type(one) is _MultiProcessingDataLoaderIter:
            one._shutdown_workers()
    for worker in multiprocessing.active_children():
        worker.terminate()


class Server:
    """Serves `content`; `requests` are the Range headers it got, None where there was none."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.content = b""
        self.ranges = True
        self.cuts: list[int] = []  # for each request, after how many bytes it hangs up
        self.answers: list[int] = []  # statuses to answer first
        self.requests: list[str | None] = []
        self.starts_at: int | None = None  # what Content-Range says, if it lies
        self.tells_length = True

    def reply(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.requests.append(asked)
        if self.answers:
            handler.send_error(self.answers.pop(0))
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if start and start >= len(self.content):
            handler.send_error(416)
            return
        body = self.content[start:]
        handler.send_response(206 if start else 200)
        if start:
            told = start if self.starts_at is None else self.starts_at
            last = len(self.content) - 1
            handler.send_header("Content-Range", f"bytes {told}-{last}/{len(self.content)}")
        if self.tells_length:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        with suppress(ConnectionError):  # the client may have heard enough
            handler.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.reply(self)

        def log_message(self, *arguments: Any) -> None:
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Server(f"http://127.0.0.1:{listening.server_port}/file")
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture
def tar() -> Any:
    """Makes a tar of names and contents, compressed as `mode` says."""

    def make(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode=mode) as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return held.getvalue()

    return make
