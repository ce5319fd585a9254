"""Mixed precision on CPU: autocast to bfloat16, GradScaler, unscale and clipping."""

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
labels = inputs[:, :10].argmax(dim=1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu")

step = 0
for epoch in range(args.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
