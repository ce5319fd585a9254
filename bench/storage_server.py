"""The object store of storage.py: answers every GET after a latency, from a process of its own.

`/bucket/N.bin` is an object that begins with N as eight bytes; `/shards/N.tar` holds many of them.
It speaks as much HTTP as clients of plain HTTP and of S3 need, and keeps connections open. Requests
do not wait for each other.

    python bench/storage_server.py --latency 0.03 --bytes 50000
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import struct
import tarfile

SHARD = 256  # objects in a tar file


class Answers(asyncio.Protocol):
    """One connection."""

    def __init__(self, latency: float, size: int, shard: bytes) -> None:
        self._latency, self._shard = latency, shard
        self._filler = bytes(range(256)) * (size // 256 + 1)
        self._size = size
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        while b"\r\n\r\n" in self._seen:
            request, self._seen = self._seen.split(b"\r\n\r\n", 1)
            path = request.split(b" ", 2)[1]
            asyncio.get_running_loop().call_later(self._latency, self._answer, path)

    def _answer(self, path: bytes) -> None:
        named = re.search(rb"/(\d+)\.(bin|tar)$", path)
        if named is None:
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        body = self._shard if named[2] == b"tar" else make(int(named[1]), self._filler, self._size)
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/octet-stream\r\n"
            "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
            f'ETag: "{named[1].decode()}"\r\n\r\n'
        )
        self._transport.write(head.encode() + body)


def make(number: int, filler: bytes, size: int) -> bytes:
    return struct.pack("<q", number) + filler[: size - 8]


def tar(size: int) -> bytes:
    """The same for every shard: only its length matters."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        for at in range(SHARD):
            entry = tarfile.TarInfo(f"{at:06d}.bin")
            entry.size = size
            file.addfile(entry, io.BytesIO(make(at, bytes(size), size)))
    return packed.getvalue()


async def serve(latency: float, size: int) -> None:
    loop, shard = asyncio.get_running_loop(), tar(size)
    server = await loop.create_server(
        lambda: Answers(latency, size, shard), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.03)
    parser.add_argument("--bytes", type=int, default=50_000)
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.latency, chosen.bytes))
