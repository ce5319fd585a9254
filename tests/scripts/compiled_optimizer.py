"""Clipping and the optimizer's step compiled by the user, clipping as one full graph."""
# expect: samples=32 unit=backward|optimizer

import argparse

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)

model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.compile(fullgraph=True)
def clip():
    clip_grad_norm_(model.parameters(), 1.0)


@torch.compile
def update():
    optimizer.step()


for _ in range(args.steps):
    loss = model(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    clip()
    update()
