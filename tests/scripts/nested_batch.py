"""The dataset returns nested dicts, so a batch is a dict of a tensor and a dict."""

# expect: samples=32 unit=optimizer
import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Nested(Dataset):
    def __init__(self, length):
        self.inputs = torch.randn(length, 64)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        x = self.inputs[index]
        return {"x": x, "meta": {"y": x[:10].argmax()}}


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

loader = DataLoader(Nested(6400), batch_size=32, shuffle=True)
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

step = 0
for epoch in range(args.epochs):
    for batch in loader:
        optimizer.zero_grad()
        loss = criterion(model(batch["x"]), batch["meta"]["y"])
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
