"""torch.compile with CUDA graphs (reduce-overhead) on the GPU, no loader."""
# expect: samples=64 device=cuda

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()
torch.manual_seed(0)

layers = []
for _ in range(24):
    layers += [nn.Linear(512, 512), nn.ReLU()]
model = torch.compile(nn.Sequential(*layers).cuda(), mode="reduce-overhead")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
for _ in range(args.steps):
    x = torch.randn(64, 512, device="cuda")
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
