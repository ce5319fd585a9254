"""An optimizer around another one (sharpness-aware): its step runs a closure, then SGD's step."""

# expect: samples=32 unit=optimizer
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()


class Sharpness(torch.optim.Optimizer):
    def __init__(self, params, base, radius=0.05, **settings):
        super().__init__(params, {"radius": radius, **settings})
        self.base = base(self.param_groups, **settings)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def step(self, closure):
        moved = []
        for group in self.param_groups:
            for one in group["params"]:
                way = one.grad * (group["radius"] / (one.grad.norm() + 1e-12))
                one.add_(way)
                moved.append((one, way))
        self.zero_grad()
        with torch.enable_grad():
            closure()
        for one, way in moved:
            one.sub_(way)
        self.base.step()
        self.zero_grad()


torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
targets = inputs[:, :1] - 2 * inputs[:, 1:2]
loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = Sharpness(model.parameters(), torch.optim.SGD, lr=0.01, momentum=0.9)

step = 0
for epoch in range(args.epochs):
    for x, y in loader:

        def closure(x=x, y=y):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = closure()
        optimizer.step(closure)
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
