"""Trains a network on small images: `python -m hotlap.workloads.cifar --model resnet18 --epochs 5`.

Prints loss and top-1 accuracy of every batch, and for every epoch the accuracy on the test images
and how long loading, training and all of it took.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from hotlap.data import stored
from hotlap.data.cifar import Cifar10
from hotlap.data.labelled import Labelled
from hotlap.data.synthetic import SyntheticImages
from hotlap.data.transforms import Crop, Flip, Normalize
from hotlap.models.resnet import WIDTHS, ResNet
from hotlap.models.revnet import RevNet
from hotlap.workloads import training
from hotlap.workloads.training import OPTIMIZERS, RATES, USUAL_RATE, Clock, Log, Precision

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
SYNTHETIC = {"train": 10_000, "test": 2_000}


def read(
    data: str, train: bool, samples: int, cache: Path | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    if data == "synthetic":
        return _drawn(train, samples, cache)
    found: Any = (
        Cifar10.download(Path("data"), train=train)
        if data == "download"
        else Cifar10.from_jpegs(Path(data), train=train, cache=cache)
    )
    count = samples or len(found.labels)
    return found.images[:count], found.labels[:count]


def _drawn(train: bool, samples: int, cache: Path | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Synthetic images; with a cache they are drawn once. `--samples` never makes more to test."""
    part, usual = ("train", SYNTHETIC["train"]) if train else ("test", SYNTHETIC["test"])
    count = (samples or usual) if train else min(samples or usual, usual)
    kept = cache / f"synthetic-{part}-{count}.tensors" if cache is not None else None
    if kept is not None and kept.exists():
        made = stored.read(kept, ("images", "labels"))
        return made["images"], made["labels"].long()
    found = SyntheticImages(count=count, train=train)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        stored.write(kept, {"images": found.images, "labels": found.labels.to(torch.uint8)})
    return found.images, found.labels


def network(name: str, norm: str, width: int = WIDTHS[0]) -> nn.Module:
    if name.startswith("revnet"):
        return RevNet(int(name.removeprefix("revnet")))
    widths = [width * factor // WIDTHS[0] for factor in WIDTHS]
    return ResNet(int(name.removeprefix("resnet")), norm=norm, widths=widths)


def accuracy(model: nn.Module, batches: Any, device: torch.device, precision: Precision) -> float:
    model.eval()
    right, count = 0, 0
    with torch.no_grad(), precision.forward():
        for inputs, targets in batches:
            found = model(inputs.to(device)).argmax(1).cpu()
            right, count = right + int((found == targets).sum()), count + len(targets)
    return right / max(1, count)


def main() -> None:
    parser = training.options("Trains a network on small images.")
    parser.add_argument("--model", default="resnet18", help="resnet10 to resnet50, revnet38, ...")
    parser.add_argument("--norm", choices=("batch", "none"), default="batch")
    parser.add_argument("--width", type=int, default=WIDTHS[0], help="channels of a resnet's stem")
    parser.add_argument("--cache", type=Path, help="keep images that are ready in this folder")
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    device = torch.device(given.device)
    train, test = (read(given.data, part, given.samples, given.cache) for part in (True, False))
    augmented = Labelled(*train, [Crop(32, padding=4), Flip(), Normalize(MEAN, STD)])
    loader = DataLoader(augmented, given.batch, shuffle=True, num_workers=given.workers)
    plain = Labelled(*test, Normalize(MEAN, STD))
    evaluation = DataLoader(plain, 500, num_workers=given.workers)
    model = network(given.model, given.norm, given.width).to(device)
    lr = given.lr or RATES.get(given.optimizer, USUAL_RATE)
    optimizer = OPTIMIZERS[given.optimizer](model.parameters(), lr)
    steps = given.epochs * (len(loader) // given.accumulate)
    schedule = training.schedule_of(given.schedule, optimizer, lr, steps)
    precision = Precision(given.precision, device)
    criterion = nn.CrossEntropyLoss()
    log = Log(given.log, device)
    hits = torch.zeros((), dtype=torch.long, device=device)

    def tell(number: int, loss: float, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        hits.add_((outputs.argmax(1) == targets).sum())
        if not given.quiet:
            right = (outputs.argmax(1) == targets).float().mean().item()
            print(f"  {number}/{len(loader)} loss {loss:.4f} top-1 {right:.1%}", flush=True)

    for epoch in range(given.epochs):
        hits.zero_()
        loss, clock = training.train_epoch(
            model,
            loader,
            criterion,
            optimizer,
            schedule,
            precision,
            device=device,
            accumulate=given.accumulate,
            tell=tell,
        )
        times, evaluating = clock.read(), Clock()
        right = accuracy(model, evaluation, device, precision)
        times["evaluation_seconds"] = evaluating.total
        print(
            f"epoch {epoch + 1}: loss {loss:.4f}, test accuracy {right:.2%}; "
            f"{training.told(times)}",
            flush=True,
        )
        log.add(
            epoch=epoch + 1,
            loss=loss,
            train_accuracy=int(hits) / max(1, len(train[0])),
            test_accuracy=right,
            **times,
        )


if __name__ == "__main__":
    main()
