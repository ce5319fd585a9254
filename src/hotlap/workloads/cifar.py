"""Trains a network on small images: `python -m hotlap.workloads.cifar --model resnet18 --epochs 5`.

Prints loss and top-1 accuracy of every batch, and for every epoch the accuracy on the test images
and how long loading, training and all of it took. Under `torchrun` every process trains with a
batch of its own, and the first one tells: its own loss, and the accuracy of all.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from hotlap.data import stored
from hotlap.data.cifar import Cifar10
from hotlap.data.labelled import Labelled
from hotlap.data.resident import DeviceDataset
from hotlap.data.synthetic import SyntheticImages
from hotlap.data.transforms import Crop, Flip, Normalize
from hotlap.errors import UsageError
from hotlap.models import resnet, revnet
from hotlap.models.resnet import NORMS, WIDTHS, ResNet
from hotlap.models.revnet import RevNet
from hotlap.workloads import ranks, training
from hotlap.workloads.ranks import Ranks
from hotlap.workloads.training import OPTIMIZERS, Clock, Log, Precision

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
SYNTHETIC = {"train": 10_000, "test": 2_000}
TEST_BATCH = 500
RESNETS = {f"resnet{depth}": depth for depth in resnet.DEPTHS}
REVNETS = {f"revnet{depth}": depth for depth in revnet.DEPTHS}


def read(
    data: str, train: bool, samples: int, cache: Path | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    if data == "synthetic":
        return _drawn(train, samples, cache)
    found: Any = (
        _downloaded(Path("data"), train)
        if data == "download"
        else Cifar10.from_jpegs(Path(data), train=train, cache=cache)
    )
    if not 0 < samples < len(found.labels):
        return found.images, found.labels
    # Folders are read class by class: the first so many would be of one or two of them.
    some = torch.arange(samples) * len(found.labels) // samples
    return found.images[some], found.labels[some]


def _downloaded(folder: Path, train: bool) -> Cifar10:
    """Where nothing came, no empty folder stays behind."""
    new = not folder.exists()
    try:
        return Cifar10.download(folder, train=train)
    finally:
        if new:
            with suppress(OSError):  # what has something in it stays
                folder.rmdir()


def _drawn(train: bool, samples: int, cache: Path | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Synthetic images; with a cache they are drawn once. `--samples` never makes more to test."""
    part, usual = ("train", SYNTHETIC["train"]) if train else ("test", SYNTHETIC["test"])
    count = (samples or usual) if train else min(samples or usual, usual)
    kept = cache / f"synthetic-{part}-{count}.tensors" if cache is not None else None
    if kept is not None and kept.exists():
        made = stored.read(kept, ("images", "labels"))
        return made["images"], made["labels"].long()
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
    found = SyntheticImages(count=count, train=train)
    if kept is not None:
        stored.write(kept, {"images": found.images, "labels": found.labels.to(torch.uint8)})
    return found.images, found.labels


def network(name: str, norm: str = "batch", width: int = WIDTHS[0]) -> nn.Module:
    if name in REVNETS:
        return RevNet(REVNETS[name])
    widths = [width * factor // WIDTHS[0] for factor in WIDTHS]
    return ResNet(RESNETS[name], norm=norm, widths=widths)


def batches(given: argparse.Namespace, train: bool, own: Ranks) -> tuple[Any, int]:
    """What hands out this process's batches of an epoch, and how many images those are."""
    try:
        images, labels = read(given.data, train, given.samples, given.cache)
    except OSError as problem:
        reason = f"{problem.filename or given.data} cannot be used: {problem.strerror}."
        raise UsageError(f"{reason} Give another path.") from problem
    size = given.batch if train else TEST_BATCH
    moves = [Crop(images.shape[-1], padding=4), Flip()] if train else []
    transform = [*moves, Normalize(MEAN, STD)]
    if given.input == "device":
        images, labels = own.part(images, labels)
        made = DeviceDataset(
            *(images, labels),
            batch_size=size,
            transform=transform,
            device=own.device,
            shuffle=train,
        )
        return made, len(images)
    if not train:
        images, labels = own.part(images, labels)
    dataset = Labelled(images, labels, transform)
    sampler = ranks.sampler(own, dataset, given.seed) if train else None
    loader: DataLoader[Any] = DataLoader(
        dataset,
        size,
        shuffle=train and sampler is None,
        sampler=sampler,
        num_workers=given.workers,
    )
    return loader, len(loader.sampler)


def accuracy(model: nn.Module, batches: Any, own: Ranks, precision: Precision) -> float:
    """Of all images: every process looks at its share of them."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.long, device=own.device)
    with torch.no_grad(), precision.forward():
        for inputs, targets in batches:
            targets = targets.to(own.device)
            found = model(inputs.to(own.device)).argmax(1)
            counts[0] += (found == targets).sum()
            counts[1] += len(targets)
    right, count = own.summed(counts).tolist()
    return float(right / max(1, count))


def options() -> argparse.ArgumentParser:
    parser = training.options("Trains a network on small images.")
    parser.add_argument("--model", choices=(*RESNETS, *REVNETS), default="resnet18")
    parser.add_argument("--norm", choices=NORMS, help="of a resnet")
    parser.add_argument("--width", type=training.at_least(1), help="channels of a resnet's stem")
    parser.add_argument(
        "--cache", type=training.folder, help="keep images that are ready in this folder"
    )
    parser.add_argument(
        "--input",
        choices=("loader", "device"),
        default="loader",
        help="a loader prepares image by image; or all lie on the device, prepared by the batch",
    )
    return parser


def parsed() -> argparse.Namespace:
    parser = options()
    given = parser.parse_args()
    if given.model in REVNETS and (given.norm or given.width):
        parser.error(f"--norm and --width are of resnets; {given.model} has its own")
    given.norm, given.width = given.norm or NORMS[0], given.width or WIDTHS[0]
    return given


def main() -> None:
    given = parsed()
    own = ranks.join(given.device)
    try:
        train(given, own)
    finally:
        ranks.leave(own)


def train(given: argparse.Namespace, own: Ranks) -> None:
    torch.manual_seed(given.seed + own.rank)
    device = own.device
    loader, count = batches(given, True, own)
    evaluation, _ = batches(given, False, own)
    model = own.wrapped(network(given.model, given.norm, given.width).to(device))
    lr = training.learning_rate(given)
    optimizer = OPTIMIZERS[given.optimizer](model.parameters(), lr)
    steps = given.epochs * training.steps_of(len(loader), given.accumulate)
    schedule = training.schedule_of(given.schedule, optimizer, lr, steps)
    precision = Precision(given.precision, device)
    criterion = nn.CrossEntropyLoss()
    log = Log(given.log if own.first else None, device)
    hits = torch.zeros((), dtype=torch.long, device=device)

    def tell(number: int, loss: float, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        hits.add_((outputs.argmax(1) == targets).sum())
        if own.first and not given.quiet:
            right = (outputs.argmax(1) == targets).float().mean().item()
            print(f"  {number}/{len(loader)} loss {loss:.4f} top-1 {right:.1%}", flush=True)

    for epoch in range(given.epochs):
        hits.zero_()
        ranks.reorder(loader, epoch)
        loss, clock = training.train_epoch(
            model,
            loader,
            criterion,
            optimizer,
            schedule,
            precision,
            device=device,
            samples=count,
            accumulate=given.accumulate,
            tell=tell,
        )
        times, evaluating = clock.read(), Clock()
        right = accuracy(model, evaluation, own, precision)
        times["evaluation_seconds"] = evaluating.total
        if own.first:
            print(
                f"epoch {epoch + 1}: loss {loss:.4f}, test accuracy {right:.2%}; "
                f"{training.told(times)}",
                flush=True,
            )
        log.add(
            epoch=epoch + 1,
            loss=loss,
            train_accuracy=int(own.summed(hits)) / max(1, count * own.world),
            test_accuracy=right,
            **times,
        )


if __name__ == "__main__":
    training.command(main)
