"""hotlap.data on a device: copying beside computing, and no batch is overwritten by another."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from hotlap.data.loader import DeviceLoader
from hotlap.data.order import Order
from hotlap.data.resumable import Resumable

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
LONG = 1_000_000_000  # cycles: far longer than the copy of a batch
SHORT = 20_000_000
NUMBERS = 1 << 20
Pair = namedtuple("Pair", "x y")


class Images(Dataset[dict[str, Any]]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": torch.full((3, 64, 64), float(index)), "label": index, "name": str(index)}


@pytest.fixture
def pinned() -> list[torch.Tensor]:
    return [torch.full((NUMBERS,), float(number)).pin_memory() for number in range(12)]


def wrong_sums(batches: list[torch.Tensor], ahead: int) -> int:
    """Each batch is let go of long before the device has read it."""
    sums = []
    for batch in DeviceLoader(batches, "cuda", ahead=ahead):
        torch.cuda._sleep(SHORT)
        sums.append(batch.mean())
        del batch
    found = [one.item() for one in sums]
    return sum(mean != number for number, mean in enumerate(found))


@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_memory_is_not_used_again_while_it_is_still_read(
    pinned: list[torch.Tensor], ahead: int
) -> None:
    assert wrong_sums(pinned, ahead) == 0


def test_without_being_recorded_it_would_be(
    pinned: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above can fail."""
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    assert wrong_sums(pinned, 1) > 0
    torch.cuda.synchronize()


def test_the_next_batches_arrive_while_the_device_computes(pinned: list[torch.Tensor]) -> None:
    loader = DeviceLoader(pinned, "cuda")
    assert len(list(loader)) == 12  # getting new memory may wait for the device
    batches = iter(loader)
    next(batches)
    torch.cuda.synchronize()
    torch.cuda._sleep(LONG)
    second = next(batches)  # the host does not wait for the device
    assert loader._copies is not None
    loader._copies._side.synchronize()
    assert not torch.cuda.current_stream().query()
    assert second.mean().item() == 1.0


def test_a_copy_that_is_under_way_is_waited_for(pinned: list[torch.Tensor]) -> None:
    loader = DeviceLoader(pinned, "cuda")
    side = loader._side()._side
    with torch.cuda.stream(side):
        torch.cuda._sleep(SHORT)  # every copy comes late
    assert [batch.mean().item() for batch in loader] == [float(number) for number in range(12)]


def test_the_stream_that_is_current_is_the_one_that_waits(pinned: list[torch.Tensor]) -> None:
    own = torch.cuda.Stream()
    means = []
    with torch.cuda.stream(own):
        for batch in DeviceLoader(pinned, "cuda"):
            torch.cuda._sleep(SHORT)
            means.append(batch.mean())
            del batch
    own.synchronize()
    assert [mean.item() for mean in means] == [float(number) for number in range(12)]


def test_a_pinned_buffer_that_is_written_to_again_is_read_before() -> None:
    buffer = torch.empty(NUMBERS).pin_memory()

    def reusing() -> Iterator[torch.Tensor]:
        for number in range(12):
            yield buffer.fill_(float(number))

    kept = list(DeviceLoader(reusing(), "cuda"))
    assert [batch.mean().item() for batch in kept] == [float(number) for number in range(12)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin", [True, False])
def test_batches_are_those_of_the_loader_in_every_epoch(workers: int, pin: bool) -> None:
    plain = DataLoader(Images(), batch_size=8, num_workers=workers, pin_memory=pin)
    loader = DeviceLoader(plain, "cuda")

    def epochs() -> None:
        for _ in range(3):
            kept = list(loader)
            assert len(kept) == len(loader) == 5
            for got, expected in zip(kept, plain, strict=True):
                assert got["image"].is_cuda
                assert got["label"].is_cuda
                assert torch.equal(got["image"].cpu(), expected["image"])
                assert torch.equal(got["label"].cpu(), expected["label"])
                assert got["name"] == expected["name"]

    if workers and not pin:
        with pytest.warns(UserWarning, match="pin_memory=True") as told:
            epochs()
        assert sum("pin_memory=True" in str(one.message) for one in told) == 1
    else:
        epochs()


@dataclass
class Batch:
    pair: Any
    rest: dict[str, Any]


def test_every_type_of_batch_arrives() -> None:
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    rest = {"packed": packed, "sparse": torch.eye(3).to_sparse(), "text": "a", "empty": None}
    batch = Batch(pair=Pair(torch.ones(2).pin_memory(), [torch.zeros(0)]), rest=rest)
    (got,) = DeviceLoader([batch], "cuda")
    assert got.pair.x.is_cuda
    assert got.pair.y[0].is_cuda
    assert got.rest["packed"].data.is_cuda
    assert not got.rest["packed"].batch_sizes.is_cuda
    assert torch.equal(got.rest["sparse"].to_dense().cpu(), torch.eye(3))
    assert (got.rest["text"], got.rest["empty"]) == ("a", None)
    assert not batch.pair.x.is_cuda


def test_breaking_out_of_an_epoch_leaves_no_worker_no_thread_and_no_memory() -> None:
    torch.zeros(1, device="cuda")
    gc.collect()
    threads, memory = set(threading.enumerate()), torch.cuda.memory_allocated()
    loader = DeviceLoader(
        DataLoader(Images(), batch_size=4, num_workers=2, pin_memory=True), "cuda"
    )
    for _ in range(2):
        next(iter(loader))
    torch.cuda.synchronize()
    assert multiprocessing.active_children() == []
    for thread in set(threading.enumerate()) - threads:  # a queue that is closed ends its own
        thread.join(timeout=60)
    assert set(threading.enumerate()) <= threads
    assert torch.cuda.memory_allocated() == memory


def test_what_is_on_its_way_is_not_counted_as_used() -> None:
    def loader(workers: int) -> Resumable:
        data = Images()
        plain = DataLoader(
            data, batch_size=4, sampler=Order(data), num_workers=workers, pin_memory=True
        )
        return Resumable(DeviceLoader(plain, "cuda"))

    straight = [label for batch in loader(0) for label in batch["label"].tolist()]
    first, seen = loader(2), []
    for number, batch in enumerate(first):
        seen += batch["label"].tolist()
        if number == 3:
            break
    resumed = loader(1)
    resumed.load_state_dict(first.state_dict())
    seen += [label for batch in resumed for label in batch["label"].tolist()]
    assert seen == straight
