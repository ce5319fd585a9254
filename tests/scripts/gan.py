"""GAN: two optimizers, discriminator then generator, one real batch per iteration."""

# expect: samples=32 unit=optimizer
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9, help="iterations, each one D and one G")
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

real_data = torch.randn(6400, 64) * 0.5 + 2.0
loader = DataLoader(TensorDataset(real_data), batch_size=32, shuffle=True)
generator = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 64))
discriminator = nn.Sequential(
    nn.Linear(64, 512), nn.LeakyReLU(0.2), nn.Linear(512, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)
)
criterion = nn.BCEWithLogitsLoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)

step = 0
for epoch in range(args.epochs):
    for (real,) in loader:
        fake = generator(torch.randn(32, 16))

        optimizer_d.zero_grad()
        loss_real = criterion(discriminator(real), ones)
        loss_fake = criterion(discriminator(fake.detach()), zeros)
        loss_d = loss_real + loss_fake
        loss_d.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        loss_g.backward()
        optimizer_g.step()

        step += 1
        if step % 50 == 0:
            print(f"step {step} D {loss_d.item():.4f} G {loss_g.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
