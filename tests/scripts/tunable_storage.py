"""Samples that come from slow storage, seeded; writes a checkpoint and a log."""

# expect: samples=16 unit=optimizer
import argparse
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument("--wait", type=float, default=0.0006, help="seconds for each sample")
args = parser.parse_args()


class Stored(Dataset):
    def __len__(self):
        return 16 * 50

    def __getitem__(self, index):
        time.sleep(args.wait)
        generator = torch.Generator().manual_seed(index)
        x = torch.randn(32, generator=generator)
        return x, (x[:4].argmax() + 0).long()


torch.manual_seed(0)
torch.set_num_threads(1)
loader = DataLoader(Stored(), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
for epoch in range(args.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        if step >= args.steps:
            print("done", flush=True)
            sys.exit(0)
    torch.save(model.state_dict(), "checkpoint.pt")
    with open("training.log", "a") as log:
        log.write(f"epoch {epoch}\n")
