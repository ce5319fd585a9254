"""Hugging Face Accelerate: prepare() and accelerator.backward()."""

# expect: samples=32 unit=optimizer
import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(6400, 64)
    labels = inputs[:, :10].argmax(dim=1)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
    model = nn.Sequential(
        nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    step = 0
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % 50 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
            if step >= args.steps:
                return


if __name__ == "__main__":
    main()
