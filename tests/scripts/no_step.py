"""Imports torch and does forward passes only, no training step; ends well."""

# expect: exit=4
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200, help="forward passes")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
model.eval()
with torch.no_grad():
    for _ in range(args.steps):
        output = model(torch.randn(32, 64))
print(f"mean activation {output.mean().item():.4f}")
