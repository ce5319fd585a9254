"""Per-sample gradients with torch.func beside the training step: it forbids saved-tensor hooks."""
# expect: samples=32

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)

model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def energy(x):
    return (x**2).sum()


for _ in range(args.steps):
    x = torch.randn(32, 64)
    slopes = torch.func.vmap(torch.func.grad(energy))(x)
    loss = model(x).square().mean() + slopes.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
