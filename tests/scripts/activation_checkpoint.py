"""Activation checkpointing: the forward is run again inside the backward pass."""
# expect: samples=32

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)

body = nn.Sequential(nn.Linear(64, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Linear(1024, 1024))
head = nn.Linear(1024, 10)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)

for _ in range(args.steps):
    loss = head(checkpoint(body, torch.randn(32, 64), use_reentrant=False)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
