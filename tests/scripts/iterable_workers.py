"""IterableDataset with two workers; the dataset shards itself."""

# expect: samples=32 unit=optimizer
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        first, stride = (0, 1) if info is None else (info.id, info.num_workers)
        for _ in range(first, self.length, stride):
            x = torch.randn(64)
            yield x, x[:10].argmax()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Stream(32 * 2000), batch_size=32, num_workers=2)
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
