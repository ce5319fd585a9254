"""Trains on the simulated device; writes how many kernels each phase of a step has to `truth.json`.

`wait` is how long a batch takes to fetch, `kernel` how long each kernel runs.
"""

import argparse
import json
import time
from pathlib import Path

import simulated  # noqa: F401
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--kernel", type=float, required=True)
parser.add_argument("--wait", type=float, default=0.0)
parser.add_argument("--read", action="store_true", help="read the loss in every step")
parser.add_argument("--convert", action="store_true", help="finish each batch on the device")
parser.add_argument("--ahead", action="store_true", help="copy the next batch on another stream")
args = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)


class Late(Dataset):
    def __len__(self):
        return 64

    def __getitems__(self, numbers):
        time.sleep(args.wait)
        return [(torch.ones(8), number % 10) for number in numbers]


model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10)).to("sim")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(Late(), batch_size=4)
side = torch.sim.Stream()
kernels = []


def count():
    kernels.append(torch.sim.kernels())


def copied(batch):
    inputs, targets = batch
    inputs = inputs.to("sim", non_blocking=True)
    if args.convert:
        inputs = inputs * 2 - 1
    return inputs, targets.to("sim", non_blocking=True)


def batches():
    if not args.ahead:
        yield from (copied(batch) for batch in loader)
        return
    ahead = None
    for batch in loader:
        with torch.sim.stream(side):
            following = copied(batch)
        if ahead is not None:
            yield ahead
        torch.sim.current_stream().wait_stream(side)
        ahead = following
    yield ahead


def step(inputs, targets):
    optimizer.zero_grad()
    count()
    loss = criterion(model(inputs), targets)
    count()
    loss.backward()
    count()
    optimizer.step()
    count()
    if args.read:
        loss.item()


for number in range(10**6):
    for inputs, targets in batches():
        step(inputs, targets)
        if number == 0 and len(kernels) == 8:  # the second step: the first makes momenta
            names = ("forward", "backward", "optimizer")
            truth = {name: kernels[i + 5] - kernels[i + 4] for i, name in enumerate(names)}
            Path("truth.json").write_text(json.dumps({**truth, "transfer": 2}))
            torch.sim.pace(args.kernel)
        if number:
            kernels.clear()
