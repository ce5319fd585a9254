"""Hundreds of tiny layers on the GPU: the host cannot issue them fast enough."""
# expect: bottleneck=launch samples=16 device=cuda

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
layers = []
for _ in range(150):
    layers += [nn.Linear(64, 64), nn.ReLU()]
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
x = torch.randn(16, 64, device=device)
for _ in range(args.steps):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
