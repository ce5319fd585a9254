"""WGAN: five critic steps on five fresh batches, then one generator step."""

# expect: samples=160 unit=optimizer
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9, help="generator steps")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

real_data = torch.randn(6400, 64) * 0.5 + 2.0
loader = DataLoader(TensorDataset(real_data), batch_size=32, shuffle=True)
generator = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 64))
critic = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
optimizer_c = torch.optim.RMSprop(critic.parameters(), lr=5e-5)


def endless(loader):
    while True:
        yield from loader


batches = endless(loader)
for step in range(1, args.steps + 1):
    for _ in range(5):
        (real,) = next(batches)
        with torch.no_grad():
            fake = generator(torch.randn(32, 16))
        optimizer_c.zero_grad()
        loss_c = critic(fake).mean() - critic(real).mean()
        loss_c.backward()
        optimizer_c.step()
        for p in critic.parameters():
            p.data.clamp_(-0.05, 0.05)

    optimizer_g.zero_grad()
    loss_g = -critic(generator(torch.randn(32, 16))).mean()
    loss_g.backward()
    optimizer_g.step()
    if step % 50 == 0:
        print(f"step {step} critic {loss_c.item():.4f} generator {loss_g.item():.4f}", flush=True)
