"""Planted (CUDA): 64 MB of pageable memory go to the device in every step of a tiny model."""

# expect: samples=32 unit=optimizer bottleneck=transfer device=cuda
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"

# 32 samples of 512 x 1024 floats: 64 MB a batch, four batches in turn
batches = [torch.randn(32, 512, 1024) for _ in range(4)]
labels = [batch[:, 0, :10].argmax(dim=1) for batch in batches]
model = nn.Linear(1024, 10).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for step in range(1, args.steps + 1):
    x = batches[step % 4].to(device)
    y = labels[step % 4].to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[:, 0]), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
