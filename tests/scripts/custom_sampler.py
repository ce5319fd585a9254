"""DataLoader with the user's own Sampler."""

# expect: samples=32 unit=optimizer
import argparse
import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class EvenFirst(Sampler):
    """All even indices in random order, then all odd ones."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        even = list(range(0, self.length, 2))
        odd = list(range(1, self.length, 2))
        random.shuffle(even)
        random.shuffle(odd)
        yield from even
        yield from odd

    def __len__(self):
        return self.length


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
dataset = TensorDataset(inputs, labels)
loader = DataLoader(dataset, batch_size=32, sampler=EvenFirst(len(dataset)))
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

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
