"""Trains super resolution: `python -m hotlap.workloads.superres --scale 2 --data photos/`.

Prints the loss of every batch, and for every epoch the mean loss, the peak signal-to-noise ratio it
stands for, and how long loading, training and all of it took.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

from hotlap.data.images import Folder
from hotlap.data.superres import Pairs
from hotlap.data.synthetic import SyntheticImages
from hotlap.models.srresnet import SRResNet
from hotlap.workloads import training
from hotlap.workloads.training import OPTIMIZERS, Log, Precision

SYNTHETIC = 2_000
SIDE = 48


def read(data: str, samples: int) -> Any:
    if data == "synthetic":
        return SyntheticImages(count=samples or SYNTHETIC, size=SIDE).images
    found = Folder(Path(data), classes=False)
    return Subset(found, range(samples)) if 0 < samples < len(found) else found


def main() -> None:
    parser = training.options("Trains super resolution.")
    parser.add_argument("--model", choices=("srresnet",), default="srresnet")
    parser.add_argument("--scale", type=int, choices=(2, 4), default=2)
    parser.add_argument(
        "--crop", type=training.at_least(1), default=SIDE, help="of the large images"
    )
    parser.add_argument("--blocks", type=training.at_least(1), default=16)
    parser.set_defaults(batch=16, optimizer="adam", schedule="constant")
    given = parser.parse_args()
    if given.crop % given.scale:
        parser.error(f"--crop {given.crop} is no multiple of --scale {given.scale}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        parser.error("one process trains super resolution; start it without torchrun")
    if given.data == "download" and not Path(given.data).exists():
        parser.error("--data download is of cifar alone; give a folder of images")
    if given.data == "synthetic" and given.crop > SIDE:
        parser.error(f"--crop {given.crop} does not fit into images of {SIDE} x {SIDE}")
    torch.manual_seed(given.seed)
    device = torch.device(given.device)
    images = read(given.data, given.samples)
    pairs = Pairs(images, scale=given.scale, crop=given.crop, seed=given.seed)
    loader = DataLoader(pairs, given.batch, shuffle=True, num_workers=given.workers)
    model = SRResNet(given.scale, blocks=given.blocks).to(device)
    lr = training.learning_rate(given)
    optimizer = OPTIMIZERS[given.optimizer](model.parameters(), lr)
    steps = given.epochs * training.steps_of(len(loader), given.accumulate)
    schedule = training.schedule_of(given.schedule, optimizer, lr, steps)
    precision = Precision(given.precision, device)
    log = Log(given.log, device)

    def tell(number: int, loss: float, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        if not given.quiet:
            print(f"  {number}/{len(loader)} loss {loss:.5f}", flush=True)

    for epoch in range(given.epochs):
        pairs.set_epoch(epoch)
        loss, clock = training.train_epoch(
            model,
            loader,
            nn.MSELoss(),
            optimizer,
            schedule,
            precision,
            device=device,
            samples=len(pairs),
            accumulate=given.accumulate,
            tell=tell,
        )
        times, ratio = clock.read(), -10 * math.log10(max(loss, 1e-12))
        print(
            f"epoch {epoch + 1}: loss {loss:.5f}, {ratio:.2f} dB; {training.told(times)}",
            flush=True,
        )
        log.add(epoch=epoch + 1, loss=loss, psnr_decibels=ratio, **times)


if __name__ == "__main__":
    training.command(main)
