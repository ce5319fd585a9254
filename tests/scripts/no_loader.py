"""No DataLoader: batches are indexed from a tensor."""

# expect: samples=32 unit=optimizer
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

step = 0
while step < args.steps:
    index = torch.randint(0, len(inputs), (32,))
    x, y = inputs[index], labels[index]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
