"""A DataLoader whose dataset reads from another DataLoader: only the outer one feeds the loop."""
# expect: samples=32

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)


class Regrouped(IterableDataset):
    """Two inner batches of 16 make one outer batch of 32."""

    def __init__(self):
        inputs = torch.randn(6400, 64)
        self.inner = DataLoader(
            TensorDataset(inputs, inputs[:, :10].argmax(dim=1)), batch_size=16, shuffle=True
        )

    def __iter__(self):
        batches = iter(self.inner)
        for first in batches:
            second = next(batches)
            yield torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])


loader = DataLoader(Regrouped(), batch_size=None)
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
step = 0
while step < args.steps:
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step >= args.steps:
            break
