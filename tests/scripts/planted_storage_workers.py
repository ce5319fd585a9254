"""Planted: every sample waits 1 ms for its storage, one worker."""

# expect: samples=32 unit=optimizer bottleneck=input detail=fetching
import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Examples(Dataset):
    def __init__(self, length):
        self.inputs = torch.randn(length, 64)
        self.labels = self.inputs[:, :10].argmax(dim=1)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        time.sleep(0.001)  # slow storage
        return self.inputs[index], self.labels[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Examples(32 * 2000), batch_size=32, shuffle=True, num_workers=1)
    model = nn.Sequential(
        nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
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
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            if step >= args.steps:
                return


if __name__ == "__main__":
    main()
