"""Nothing is collated: a batch is a list of 16 sequences, each of 12 rows."""

# expect: samples=16 unit=optimizer
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(3200, 12, 64)
loader = DataLoader(list(inputs), batch_size=16, shuffle=True, collate_fn=lambda rows: rows)
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

step = 0
for epoch in range(args.epochs):
    for sequences in loader:
        x = torch.stack(sequences).mean(dim=1)
        optimizer.zero_grad()
        loss = criterion(model(x), x[:, :10].argmax(dim=1))
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
