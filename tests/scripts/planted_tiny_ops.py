"""Planted: 300 elementwise operations on tensors of 8 elements, so that only launching costs."""

# expect: samples=8 unit=optimizer bottleneck=launch
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recurrence(nn.Module):
    def __init__(self, rounds=100):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.tensor(1.01))
        self.shift = nn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        for _ in range(self.rounds):
            x = torch.tanh(x * self.scale + self.shift)
        return x


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(8000)
targets = 0.5 * torch.sign(inputs)
loader = DataLoader(TensorDataset(inputs, targets), batch_size=8, shuffle=True)
model = Recurrence()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

step = 0
for epoch in range(args.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
