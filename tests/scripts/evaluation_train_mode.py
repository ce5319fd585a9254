"""The same with an evaluation that forgets model.eval(): only no_grad tells it apart."""

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

torch.manual_seed(0)
torch.set_num_threads(1)


def make_loader(batches, batch_size):
    inputs = torch.randn(batches * batch_size, 64)
    labels = inputs[:, :10].argmax(dim=1)
    return DataLoader(TensorDataset(inputs, labels), batch_size=batch_size, shuffle=True)


train_loader = make_loader(30, 32)
test_loader = make_loader(30, 512)
model = nn.Sequential(
    nn.Linear(64, 1024),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(1024, 1024),
    nn.ReLU(),
    nn.Linear(1024, 10),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

step = 0
for epoch in range(args.epochs):
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        step += 1
        if step >= args.steps:
            sys.exit(0)

    correct = 0
    with torch.no_grad():
        for x, y in test_loader:
            correct += (model(x).argmax(dim=1) == y).sum().item()
    accuracy = correct / len(test_loader.dataset)
    print(f"epoch {epoch} loss {loss.item():.4f} accuracy {accuracy:.4f}", flush=True)
