"""Planted: epochs of four batches, so that starting two workers every epoch dominates."""

# expect: samples=32 unit=optimizer bottleneck=input
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(32 * 4, 64)
    labels = inputs[:, :10].argmax(dim=1)
    loader = DataLoader(
        TensorDataset(inputs, labels),
        batch_size=32,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="fork",
    )
    model = nn.Sequential(
        nn.Linear(64, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 10)
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    step = 0
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step >= args.steps:
                return
        if epoch % 10 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
