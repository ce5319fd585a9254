"""LBFGS with a closure, max_iter=4; batches from a DataLoader."""

# expect: samples=32 unit=optimizer
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
targets = inputs[:, :1] - 2 * inputs[:, 1:2]
loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=4, history_size=5)

step = 0
for epoch in range(args.epochs):
    for x, y in loader:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
