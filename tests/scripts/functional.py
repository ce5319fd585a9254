"""No nn.Module: weights are plain tensors, SGD over them, F.linear."""

# expect: samples=32 unit=optimizer
import argparse
import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)


def weight(rows, columns):
    return (torch.randn(rows, columns) / columns**0.5).requires_grad_()


w1, w2, w3 = weight(1024, 64), weight(1024, 1024), weight(10, 1024)
b1, b2, b3 = (torch.zeros(n, requires_grad=True) for n in (1024, 1024, 10))
optimizer = torch.optim.SGD([w1, b1, w2, b2, w3, b3], lr=0.05)

step = 0
for epoch in range(args.epochs):
    for x, y in loader:
        hidden = F.relu(F.linear(x, w1, b1))
        hidden = F.relu(F.linear(hidden, w2, b2))
        loss = F.cross_entropy(F.linear(hidden, w3, b3), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if step >= args.steps:
            sys.exit(0)
