"""Sleeps planted in every phase of the step; times them itself and writes --timings FILE."""

# expect: samples=8 unit=optimizer
import argparse
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 8 * 100

    def __getitem__(self, index):
        time.sleep(0.010 / 8)
        x = torch.randn(64)
        return x, x[:10].argmax()


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.020)
        return grad


class SlowNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        time.sleep(0.015)
        return SlowBackward.apply(self.linear(x))


class SlowSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        time.sleep(0.012)
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"])


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument("--timings", help="file that gets the median seconds of every phase")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

loader = DataLoader(Slow(), batch_size=8, shuffle=True)
model = SlowNet()
criterion = nn.CrossEntropyLoss()
optimizer = SlowSGD(model.parameters(), lr=0.05)
seconds = {name: [] for name in ("input", "forward", "backward", "optimizer", "other", "step")}
in_phases = [seconds[name] for name in ("input", "forward", "backward", "optimizer")]


def write_timings(path):
    with open(path + ".tmp", "w") as file:
        json.dump({name: statistics.median(values) for name, values in seconds.items()}, file)
    os.replace(path + ".tmp", path)


step = 0
clock = time.perf_counter
start = clock()
for epoch in range(args.epochs):
    for x, y in loader:
        fetched = clock()
        optimizer.zero_grad()
        before_forward = clock()
        output = model(x)
        after_forward = clock()
        loss = criterion(output, y)
        before_backward = clock()
        loss.backward()
        after_backward = clock()
        optimizer.step()
        after_optimizer = clock()
        time.sleep(0.008)
        end = clock()

        seconds["input"].append(fetched - start)
        seconds["forward"].append(after_forward - before_forward)
        seconds["backward"].append(after_backward - before_backward)
        seconds["optimizer"].append(after_optimizer - after_backward)
        seconds["step"].append(end - start)
        seconds["other"].append(end - start - sum(values[-1] for values in in_phases))
        start = end
        step += 1
        if args.timings and step % 10 == 0:
            write_timings(args.timings)
        if step >= args.steps:
            sys.exit(0)
