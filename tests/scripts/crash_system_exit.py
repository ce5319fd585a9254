"""Calls sys.exit(7) before the first step."""

# expect: exit=3
import argparse
import os
import sys

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="no-such-folder")
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
if not os.path.isdir(args.data):
    print(f"no data in {args.data}", file=sys.stderr)
    sys.exit(7)

for _ in range(args.steps):
    x = torch.randn(32, 64)
    loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
