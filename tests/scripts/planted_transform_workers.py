"""Planted: every sample goes through a costly transform on the CPU, one worker."""

# expect: samples=32 unit=optimizer bottleneck=input detail=transforming
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def augment(image):
    """Blurs and equalizes one small image, clumsily."""
    for _ in range(16):
        image = image + 0.1 * np.roll(image, 1, axis=0) + 0.1 * np.roll(image, -1, axis=1)
        image = image / np.abs(image).max()
    histogram = [0] * 16
    for value in image.ravel().tolist():
        histogram[int((value + 1) * 7.9)] += 1
    return image, max(histogram)


class Examples(Dataset):
    def __init__(self, length):
        self.length = length
        self.images = np.random.default_rng(0).standard_normal((64, 64, 64), dtype=np.float32)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        image, peak = augment(self.images[index % 64])
        x = torch.from_numpy(image[0].copy())
        return x, x[:10].argmax()


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
