"""DDP over gloo that starts its ranks itself; rank 1 is held up by its own code in every step."""

# expect: samples=64 unit=optimizer ranks=2 slow_rank=1
import argparse
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(rank, meet, args):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=2)

    inputs = torch.randn(12800, 64)
    labels = inputs[:, :10].argmax(dim=1)
    dataset = TensorDataset(inputs, labels)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(
        nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    step = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            if rank == 1:
                time.sleep(0.02)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0 and step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            if step >= args.steps:
                dist.destroy_process_group()
                return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(os.path.join(folder, "meet"), args), nprocs=2)


if __name__ == "__main__":
    main()
