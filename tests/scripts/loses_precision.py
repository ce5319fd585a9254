"""Learns small differences between large numbers: what eight bits of mantissa cannot hold."""

# expect: samples=64 unit=optimizer bottleneck=launch
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)


class Offset(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
        self.far = nn.Linear(1, 1)
        nn.init.ones_(self.far.weight)
        nn.init.constant_(self.far.bias, 500.0)

    def forward(self, x):
        return self.far(self.layers(x)) - 500.0


model = Offset()
optimizer = torch.optim.Adam(model.layers.parameters(), lr=0.02)
for step in range(args.steps):
    x = torch.randn(64, 16)
    y = x[:, :1]
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
