"""Forward, loss and backward in one compiled function."""
# expect: samples=none

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


@torch.compile
def train_step(x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss


for _ in range(args.steps):
    optimizer.zero_grad()
    train_step(torch.randn(32, 64), torch.randint(0, 10, (32,)))
    optimizer.step()
