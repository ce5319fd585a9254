"""Planted (CUDA): after each of ten frozen layers .item() reads statistics of every sample."""

# expect: samples=32 unit=optimizer bottleneck=sync device=cuda
import argparse

import torch
from torch import nn


class Checked(nn.Module):
    """Ten frozen layers, each followed by checks of its activations on the host; a new head."""

    def __init__(self, width, checks):
        super().__init__()
        self.first = nn.Linear(64, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(9))
        self.head = nn.Linear(width, 10)
        self.checks = checks
        self.largest = 0.0

    def check(self, x):
        a = x.detach()
        for value in torch.cat([a.amax(dim=1), a.amin(dim=1), a.mean(dim=1)])[: self.checks]:
            self.largest = max(self.largest, value.item())
        return x

    def forward(self, x):
        x = self.check(torch.relu(self.first(x)))
        for layer in self.layers:
            x = self.check(torch.relu(layer(x)))
        return self.head(x)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--checks", type=int, default=96, help=".item() calls after each layer")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"

inputs = torch.randn(6400, 64, device=device)
labels = inputs[:, :10].argmax(dim=1)
model = Checked(args.width, args.checks).to(device)
model.first.requires_grad_(False)
model.layers.requires_grad_(False)
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.01)

for step in range(1, args.steps + 1):
    first = 32 * step % len(inputs)
    x, y = inputs[first : first + 32], labels[first : first + 32]
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} largest activation {model.largest:.4f}", flush=True)
