"""Hogwild: two spawned processes train one shared model; no RANK in the environment."""

# expect: samples=32 unit=optimizer processes=2
import argparse
import os

import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(number, model, epochs, steps):
    torch.manual_seed(number)
    torch.set_num_threads(1)
    inputs = torch.randn(6400, 64)
    labels = inputs[:, :10].argmax(dim=1)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    step = 0
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"pid {os.getpid()} step {step} loss {loss.item():.4f}", flush=True)
            if step >= steps:
                return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    model.share_memory()
    context = mp.get_context("spawn")
    processes = []
    for number in range(2):
        process = context.Process(target=train, args=(number, model, args.epochs, args.steps))
        process.start()
        processes.append(process)
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
