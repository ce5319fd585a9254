"""DDP over gloo that sends far more than it computes, in both backward passes of a step."""

# expect: samples=32 unit=optimizer ranks=2
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40_000, 64)  # 10 MB of gradients, nearly all of them zeros
        self.head = nn.Linear(64, 10)

    def forward(self, words):
        return self.head(self.table(words).mean(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    words = torch.randint(40_000, (6400, 8))
    dataset = TensorDataset(words, words[:, 0] % 10)
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    net = Net()
    model = DistributedDataParallel(net)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.head.parameters(), lr=0.05)

    step = 0
    while True:
        for number, (x, y) in enumerate(loader):
            (criterion(model(x), y) / 2).backward()
            if number % 2 == 0:
                continue
            optimizer.step()
            model.zero_grad()
            step += 1
            if step >= args.steps:
                dist.destroy_process_group()
                return


if __name__ == "__main__":
    main()
