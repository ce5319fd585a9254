"""The body of the training loop swallows every exception, even BaseException."""

# expect: samples=32 unit=optimizer
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

step = 0
while step < args.steps:
    try:
        index = torch.randint(0, len(inputs), (32,))
        optimizer.zero_grad()
        loss = criterion(model(inputs[index]), labels[index])
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    except BaseException as error:
        print(f"skipping a batch: {error!r}", flush=True)
        continue
