"""A module whose train() is overridden with other arguments and is the training method."""

# expect: samples=32 unit=optimizer
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 1024)
        self.middle = nn.Linear(1024, 1024)
        self.head = nn.Linear(1024, 10)

    def forward(self, x):
        return self.head(torch.relu(self.middle(torch.relu(self.hidden(x)))))

    def train(self, loader, optimizer, epochs, steps):
        step = 0
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self(x), y)
                loss.backward()
                optimizer.step()
                step += 1
                if step % 50 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
                if step >= steps:
                    return step
        return step


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10_000)
parser.add_argument("--steps", type=int, default=10**9)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(6400, 64)
labels = inputs[:, :10].argmax(dim=1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
learner = Learner()
optimizer = torch.optim.SGD(learner.parameters(), lr=0.05)
steps = learner.train(loader, optimizer, epochs=args.epochs, steps=args.steps)
print(f"trained {steps} steps")
