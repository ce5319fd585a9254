"""Executes a configuration file that lies beside it, found through __file__."""

# expect: samples=32 unit=optimizer
import argparse
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

batch_size, width, learning_rate = 8, 64, 0.01  # overridden by the configuration
exec(open(os.path.join(os.path.dirname(__file__), "config_exec.txt")).read())

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=batch_size, shuffle=True)
model = nn.Sequential(
    nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)

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
