"""Batches in pinned memory, each copied ahead on a stream of its own while the GPU computes."""
# expect: samples=1024 device=cuda

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()
torch.manual_seed(0)

host = [torch.randn(1024, 4096).pin_memory() for _ in range(4)]
layers = []
for _ in range(6):
    layers += [nn.Linear(4096, 4096), nn.ReLU()]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
side = torch.cuda.Stream()


def copied(number):
    with torch.cuda.stream(side):
        return host[number % 4].cuda(non_blocking=True)


ahead = copied(0)
for step in range(args.steps):
    torch.cuda.current_stream().wait_stream(side)
    batch = ahead
    batch.record_stream(torch.cuda.current_stream())
    ahead = copied(step + 1)
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
