"""Loops over an endless Python generator of batches, no DataLoader."""

# expect: samples=32 unit=optimizer
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)


def batches(batch_size):
    while True:
        x = torch.randn(batch_size, 64)
        yield x, x[:, :10].argmax(dim=1)


model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for step, (x, y) in enumerate(batches(32), start=1):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step >= args.steps:
        break
