"""A whole data set in the memory of one device, handed out as transformed batches.

What fits is faster than any loader: no workers, no copies between processes, no collating. The
random numbers of an epoch are drawn at its start, on the CPU: the same seed gives the same batches
on every device, the middle of an epoch can be resumed, and a GPU is never waited for.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import Any

import torch

from hotlap.data.transforms import windows
from hotlap.data.transforms.geometry import Crop
from hotlap.data.transforms.transform import Compose, Drawn, Transform, checked, for_each

FIRST, LAST = "NCHW", "NHWC"
AHEAD = 32  # batches
PIECE = 256 << 20  # bytes of float32 made at once on a GPU, and of its memory at most
SHARE = 64  # one part in so many
Batch = tuple[torch.Tensor, torch.Tensor]


class DeviceDataset:
    """Batches of (inputs, labels) out of a data set that lies on `device`, best as uint8.

    `images` are count x channels x height x width, or with `layout="NHWC"` count x height x
    width x channels. A transform that begins with `Crop` is padded once, for good. Every batch is
    memory of its own: it may be kept or written to. Without a seed, `torch.manual_seed` decides.
    On a GPU several batches are made at once: their kernels would be too small to be worth a call.
    With `memory_format=torch.channels_last` the data set lies that way and batches come out so.

    Iterating again gives the next epoch. `state_dict` says how far the last iteration has come;
    after `load_state_dict` the next one goes on from there.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        *,
        batch_size: int,
        transform: Transform | Sequence[Transform] | None = (),
        device: torch.device | str | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int | torch.Generator | None = None,
        layout: str = FIRST,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size)
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; a batch holds one sample or more")
        if labels is None:
            raise TypeError("labels is None; without any, give torch.zeros(len(images))")
        self.shuffle = shuffle
        self.drop_last = drop_last
        several = [transform] if isinstance(transform, Transform) else transform or ()
        self.transform = Compose(several if isinstance(several, Iterable) else [several])
        self.seed = drawn_seed(seed)
        whole = checked(channels_first(torch.as_tensor(images, device=device), layout))
        self._shape = (whole.shape[1], whole.shape[2], whole.shape[3])
        self.transform.draw(0, self._shape, torch.Generator())  # what cannot fit says so here
        whole = whole.contiguous(memory_format=memory_format)
        first = next(iter(self.transform.transforms), None)
        self._crop = first if isinstance(first, Crop) else None
        if self._crop is not None:
            whole = self._crop.pad(whole)
        self._images = whole
        self._labels = torch.as_tensor(labels, device=whole.device)
        if len(self._labels) != len(whole):
            raise ValueError(f"{len(whole)} images, but {len(self._labels)} labels")
        self._epoch, self._position = 0, 0
        self._begun = False  # an iteration has started on this epoch and not come to its end
        self._turn, self._loaded = 0, 0

    @property
    def device(self) -> torch.device:
        return self._images.device

    def __repr__(self) -> str:
        shape = "x".join(map(str, self._shape))
        return (
            f"DeviceDataset({len(self._images):,} images of {shape} on {self.device}, "
            f"batch_size={self.batch_size})"
        )

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        count = len(self._images)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        if self._begun:
            self._epoch, self._position = self._epoch + 1, 0
        self._begun = True
        self._turn += 1
        return self._batches(self._turn, self._epoch, self._position)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch's. What was loaded of this epoch stays loaded."""
        if epoch != self._epoch or self._begun:
            self._epoch, self._position, self._begun = epoch, 0, False

    def state_dict(self) -> dict[str, int]:
        """Where the last iteration is: a few numbers, whatever the size of the data set."""
        return {
            "seed": self.seed,
            "epoch": self._epoch,
            "position": self._position,
            "samples": len(self._images),
            "shuffle": self.shuffle,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next iteration goes on where `state` was taken; running ones end with an error."""
        for name, own in {"samples": len(self._images), "shuffle": self.shuffle}.items():
            if name not in state:
                raise ValueError(f"this is no state of a DeviceDataset: it has no {name!r}")
            if state[name] != own:
                raise ValueError(
                    f"the state was saved with {name}={state[name]!r}, and this data set has "
                    f"{name}={own!r}: the samples would not be the ones left over"
                )
        self.seed = state["seed"]
        self._epoch, self._position, self._begun = state["epoch"], state["position"], False
        self._turn += 1
        self._loaded = self._turn

    def batches(self, orders: Iterator[Sequence[int]]) -> Iterator[list[torch.Tensor]]:
        """The batches of someone else's order, such as a loader's batch sampler.

        Random numbers come from the generator that `torch.manual_seed` seeds. Orders are taken
        some batches ahead: what belongs to many of them is copied to the device at once.
        """
        while several := list(islice(orders, AHEAD)):
            order = torch.tensor([index for one in several for index in one])
            numbers = self.transform.draw(len(order), self._shape, torch.default_generator)
            order, drawn = self._moved(order, numbers)
            for inputs, labels in self._made(order, drawn, [len(one) for one in several]):
                yield [inputs, labels]

    def _batches(self, turn: int, epoch: int, position: int) -> Iterator[Batch]:
        count = len(self._images)
        order, drawn = self._drawn(epoch)
        full, rest = divmod(count - position, self.batch_size)
        sizes = [self.batch_size] * full + ([rest] if rest and not self.drop_last else [])
        rows = slice(position, count)
        batches = self._made(order[rows], for_each(drawn, itemgetter(rows)), sizes)
        for size in sizes:
            if turn < self._loaded:
                raise RuntimeError("a state was loaded after this iteration began; call iter again")
            batch = next(batches)
            position += size
            if turn == self._turn:
                self._position = position
            yield batch
        if turn == self._turn:
            self._epoch, self._position, self._begun = epoch + 1, 0, False

    def _made(self, order: torch.Tensor, drawn: Drawn, sizes: list[int]) -> Iterator[Batch]:
        """Batches of these sizes out of what was drawn for all of them."""
        start = 0
        for several in self._pieces(sizes):
            rows = slice(start, start := start + sum(several))
            picks = order[rows]
            inputs = self._inputs(picks, for_each(drawn, itemgetter(rows)))
            labels = self._labels.index_select(0, picks)
            if len(several) == 1:
                yield inputs, labels
                continue
            for one, its in zip(inputs.split(several), labels.split(several), strict=True):
                yield one.clone(), its.clone()

    def _pieces(self, sizes: list[int]) -> Iterator[list[int]]:
        """On a CPU a batch at a time: what stays in its caches is faster than any saved call."""
        most = 0
        if self.device.type == "cuda":
            memory = torch.cuda.get_device_properties(self.device).total_memory
            most = min(PIECE, memory // SHARE) // (4 * self._images[0].numel())
        piece: list[int] = []
        for size in sizes:
            if piece and sum(piece) + size > most:
                yield piece
                piece = []
            piece.append(size)
        if piece:
            yield piece

    def _drawn(self, epoch: int) -> tuple[torch.Tensor, Drawn]:
        """The order of an epoch and the random numbers of its transforms."""
        count = len(self._images)
        generator = torch.Generator().manual_seed(mixed(self.seed, epoch))
        order = torch.randperm(count, generator=generator)
        if not self.shuffle:
            order = torch.arange(count)
        return self._moved(order, self.transform.draw(count, self._shape, generator))

    def _moved(self, order: torch.Tensor, drawn: Drawn) -> tuple[torch.Tensor, Drawn]:
        """To the device; from pinned memory the copy does not wait for it."""
        moved = (order, drawn)
        if self.device.type == "cuda":
            moved = for_each(moved, lambda row: row.pin_memory().to(self.device, non_blocking=True))
        else:
            moved = for_each(moved, lambda row: row.to(self.device))
        return moved[0], moved[1]

    def _inputs(self, picks: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        if self._crop is None:
            return self.transform.apply(windows.pick(self._images, picks), drawn)
        batch = windows.cut(self._images, picks, *drawn[0], size=self._crop.size)
        for each, part in zip(self.transform.transforms[1:], drawn[1:], strict=True):
            batch = each.apply(batch, part)
        return batch


def channels_first(images: torch.Tensor, layout: str) -> torch.Tensor:
    """A view of count x channels x height x width."""
    if layout not in (FIRST, LAST):
        raise ValueError(f"layout is {layout!r}; it can be {FIRST!r} or {LAST!r}")
    if images.dim() != 4 or layout == LAST:
        return images.permute(0, 3, 1, 2) if images.dim() == 4 else images
    few = (1, 3, 4)
    if images.shape[1] not in few and images.shape[3] in few:
        raise ValueError(
            f"images of shape {tuple(images.shape)} seem to have their channels last; "
            f"say layout={LAST!r}"
        )
    return images


def drawn_seed(seed: int | torch.Generator | None) -> int:
    if seed is not None and not isinstance(seed, torch.Generator):
        return whole_number("seed", seed)
    device = None if seed is None else seed.device
    return int(torch.randint(0, 2**63 - 1, (), generator=seed, device=device))


def whole_number(name: str, value: Any) -> int:
    """Of any library's kind."""
    if not isinstance(value, bool):
        with suppress(TypeError):
            return operator.index(value)
    raise TypeError(f"{name} is {value!r}; it is a whole number")


def mixed(seed: int, epoch: int) -> int:
    """A seed for one epoch; those of neighbouring epochs and seeds have nothing in common."""
    digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
