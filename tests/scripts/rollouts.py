"""Reinforcement learning: 8 forward passes in eval mode before each training step."""

# expect: samples=128 unit=optimizer
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
    model.eval()
    with torch.no_grad():
        played = [model(torch.randn(16, 64)) for _ in range(8)]
    model.train()
    index = torch.randint(0, len(inputs), (128,))
    x, y = inputs[index], labels[index]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
