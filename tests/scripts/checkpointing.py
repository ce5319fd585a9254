"""Every 10 steps writes checkpoint.pt, train.log and metrics.json in the current folder."""

# expect: samples=32 unit=optimizer writes=checkpoint.pt,train.log,metrics.json
import argparse
import json
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
labels = inputs[:, :10].argmax(dim=1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
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
        if step % 10 == 0:
            torch.save({"model": model.state_dict(), "step": step}, "checkpoint.pt")
            with open("train.log", "a") as log:
                log.write(f"epoch {epoch} step {step} loss {loss.item():.4f}\n")
            with open("metrics.json", "w") as metrics:
                json.dump({"epoch": epoch, "step": step, "loss": loss.item()}, metrics)
        if step >= args.steps:
            sys.exit(0)
