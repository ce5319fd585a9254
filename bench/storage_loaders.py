"""The loaders that bench/storage.py measures, each made for the store at a port of this machine."""

from __future__ import annotations

import http.client
import importlib.metadata
import os
import random
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from hotlap.data.concurrent import Concurrent
from hotlap.data.remote import Objects
from storage_server import SHARD

OBJECT_BYTES, BATCH, AT_ONCE = 50_000, 64, 64
STOCK = "stock, 2 workers"
Samples = Iterable[Any]


# The loaders -----------------------------------------------------------------------------------


def decode(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class Http(Dataset[torch.Tensor]):
    """What one writes first: a sample is a request."""

    def __init__(self, port: int, count: int) -> None:
        self._port, self._count = port, count
        self._here = threading.local()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        if getattr(self._here, "process", None) != os.getpid():
            self._here.process = os.getpid()
            self._here.connection = http.client.HTTPConnection("127.0.0.1", self._port)
        self._here.connection.request("GET", f"/bucket/{index}.bin")
        return decode(self._here.connection.getresponse().read())


def loaded(dataset: Any, workers: int) -> Samples:
    return DataLoader(dataset, BATCH, shuffle=True, num_workers=workers)


def stock(port: int, count: int, workers: int) -> Samples:
    return loaded(Http(port, count), workers)


def stateful(port: int, count: int, workers: int) -> Samples:
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader: Samples = StatefulDataLoader(
        Http(port, count), BATCH, shuffle=True, num_workers=workers
    )
    return loader


def concurrent(port: int, count: int, workers: int) -> Samples:
    return loaded(Concurrent(Http(port, count), threads=AT_ONCE), workers)


def objects_http(port: int, count: int, workers: int) -> Samples:
    importlib.metadata.version("aiohttp")
    names = (f"{at}.bin" for at in range(count))
    where = f"http://127.0.0.1:{port}/bucket"
    return loaded(Objects(names, where, decode=decode, at_once=AT_ONCE), workers)


def objects_obstore(port: int, count: int, workers: int) -> Samples:
    from obstore.fsspec import register

    register("s3")
    options = {
        "endpoint": f"http://127.0.0.1:{port}",
        "client_options": {"allow_http": True},
        "skip_signature": True,
        "region": "nowhere",
        "virtual_hosted_style_request": False,
    }
    names = (f"{at}.bin" for at in range(count))
    return loaded(
        Objects(names, "s3://bucket", options=options, decode=decode, at_once=AT_ONCE), workers
    )


def web_dataset(port: int, count: int, workers: int) -> Samples:
    import webdataset

    shards = [
        f"pipe:curl -s http://127.0.0.1:{port}/shards/{at}.tar" for at in range(count // SHARD)
    ]
    dataset = webdataset.WebDataset(shards, shardshuffle=100, seed=0).shuffle(SHARD)
    dataset = dataset.map(lambda sample: decode(sample["bin"])).batched(
        BATCH, collation_fn=default_collate
    )
    return webdataset.WebLoader(dataset, batch_size=None, num_workers=workers)


def lit_data(port: int, count: int, workers: int) -> Samples:
    from litdata import StreamingRawDataset
    from litdata.raw.indexer import BaseIndexer, FileMetadata
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # our store has no certificate

    class Known(BaseIndexer):
        def discover_files(self, *_: Any) -> list[Any]:
            return self.build_or_load_index()

        def build_or_load_index(self, *_: Any, **__: Any) -> list[Any]:
            names = (f"s3://bucket/{at}.bin" for at in range(count))
            return [FileMetadata(path=name, size=OBJECT_BYTES) for name in names]

    options = {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "aws_access_key_id": "any",
        "aws_secret_access_key": "any",
        "region_name": "us-east-1",
    }
    dataset = StreamingRawDataset(
        "s3://bucket",
        cache_dir=tempfile.mkdtemp(prefix="hotlap-bench-"),
        indexer=Known(),
        storage_options=options,
        transform=decode,
    )
    return loaded(dataset, workers)


def spdl_threads(port: int, count: int, workers: int) -> Samples:
    return piped(Http(port, count).__getitem__, count)


def spdl_async(port: int, count: int, workers: int) -> Samples:
    import aiohttp

    sessions: list[Any] = []

    async def fetch(index: int) -> torch.Tensor:
        if not sessions:
            sessions.append(aiohttp.ClientSession())
        async with sessions[0].get(f"http://127.0.0.1:{port}/bucket/{index}.bin") as answer:
            return decode(await answer.read())

    return piped(fetch, count)


def piped(fetch: Callable[[int], Any], count: int) -> Iterator[Any]:
    from spdl.pipeline import PipelineBuilder

    order = list(range(count))
    random.Random(0).shuffle(order)
    pipeline = (
        PipelineBuilder()
        .add_source(order)
        .pipe(fetch, concurrency=AT_ONCE)
        .aggregate(BATCH)
        .pipe(default_collate)
        .add_sink(3)
        .build(num_threads=AT_ONCE)
    )
    with pipeline.auto_stop():
        yield from pipeline


# By name: how it is made, its workers, and the batches of a block: a few seconds each.
Make = Callable[[int, int, int], Samples]
LOADERS: dict[str, tuple[Make, int, int]] = {
    "stock, 0 workers": (stock, 0, 4),
    STOCK: (stock, 2, 8),
    "StatefulDataLoader, 2 workers": (stateful, 2, 8),
    "Concurrent, 0 workers": (concurrent, 0, 96),
    "Concurrent, 2 workers": (concurrent, 2, 160),
    "Objects http, 0 workers": (objects_http, 0, 96),
    "Objects http, 2 workers": (objects_http, 2, 160),
    "Objects obstore, 0 workers": (objects_obstore, 0, 96),
    "Objects obstore, 2 workers": (objects_obstore, 2, 160),
    "WebDataset, 0 workers": (web_dataset, 0, 160),
    "WebDataset, 2 workers": (web_dataset, 2, 160),
    "litdata raw, 0 workers": (lit_data, 0, 96),
    "litdata raw, 2 workers": (lit_data, 2, 160),
    "SPDL threads": (spdl_threads, 0, 96),
    "SPDL async": (spdl_async, 0, 96),
}
