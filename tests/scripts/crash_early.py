"""Raises ValueError before the first step."""

# expect: exit=3
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=-0.05)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)


def make_optimizer(model, lr):
    if lr < 0:
        raise ValueError("bad learning rate")
    return torch.optim.SGD(model.parameters(), lr=lr)


model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = make_optimizer(model, args.lr)

for _ in range(args.steps):
    x = torch.randn(32, 64)
    loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
