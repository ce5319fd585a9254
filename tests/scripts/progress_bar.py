"""Asks stty for the terminal's width like pytorch-cifar, and draws a \\r progress bar."""

# expect: samples=32 unit=optimizer needs=tty
import argparse
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

_, term_width = os.popen("stty size", "r").read().split()
term_width = int(term_width)


def progress_bar(current, total, message):
    width = max(10, term_width - len(message) - 10)
    done = int(width * current / total)
    sys.stdout.write(f"\r [{'=' * done}>{'.' * (width - done)}] {message}")
    sys.stdout.flush()


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

step = 0
for epoch in range(args.epochs):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        progress_bar(i + 1, len(loader), f"epoch {epoch} loss {loss.item():.4f}")
        if step >= args.steps:
            sys.exit(0)
    print()
