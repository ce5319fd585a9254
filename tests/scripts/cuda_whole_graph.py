"""Warm-up in eager mode, then the whole step captured by hand in one CUDA graph and replayed."""
# expect: samples=64 device=cuda

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
args = parser.parse_args()
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(12)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
x = torch.randn(64, 512, device="cuda")


def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(30):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(args.steps):
    graph.replay()
torch.cuda.synchronize()
print("done")
