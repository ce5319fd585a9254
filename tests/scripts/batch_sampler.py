"""DataLoader with the user's own batch_sampler (so that loader.batch_size is None)."""

# expect: samples=32 unit=optimizer
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Blocks:
    """Batches of 32 neighbouring indices, the blocks in random order."""

    def __init__(self, length, size):
        self.length = length
        self.size = size

    def __iter__(self):
        for block in torch.randperm(len(self)).tolist():
            yield list(range(block * self.size, (block + 1) * self.size))

    def __len__(self):
        return self.length // self.size


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
dataset = TensorDataset(inputs, labels)
loader = DataLoader(dataset, batch_sampler=Blocks(len(dataset), 32))
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

step = 0
for epoch in range(args.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
