"""One optimizer per parameter, stepped by a gradient hook inside the backward pass."""
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
optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)

for _ in range(args.steps):
    model(torch.randn(32, 64)).square().mean().backward()
