"""A DataLoader that makes its iterator once, past `__iter__`, and never ends it."""

# expect: samples=32 unit=optimizer
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()


class Boxes(Dataset):
    def __len__(self):
        return 3200

    def __getitem__(self, index):
        some = torch.Generator().manual_seed(index)
        return {"boxes": torch.rand(1 + index % 3, 4), "x": torch.randn(64, generator=some)}


def collate(samples):
    """More boxes than images, and they stand first."""
    return {
        "boxes": torch.cat([one["boxes"] for one in samples]),
        "x": torch.stack([one["x"] for one in samples]),
    }


class Again:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class Endless(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Again(self.batch_sampler))
        self.iterator = None

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        if self.iterator is None:
            self.iterator = self._get_iterator()
        for _ in range(len(self)):
            yield next(self.iterator)


class Model(nn.Sequential):
    def forward(self, batch):
        return super().forward(batch["x"])


torch.manual_seed(0)
torch.set_num_threads(1)

loader = Endless(Boxes(), batch_size=32, shuffle=True, collate_fn=collate)
model = Model(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

step = 0
for epoch in range(args.epochs):
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
