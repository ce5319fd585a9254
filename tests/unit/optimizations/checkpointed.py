"""A model of blocks in which much may be different a second time, trained with and without it."""

from __future__ import annotations

import contextlib
import copy
import random
import weakref

import numpy
import torch
from torch import nn

from hotlap.optimizations import activation_checkpointing
from hotlap.optimizations.training import Training


def applied(model, every=1):
    training = Training(torch, None)
    activation_checkpointing.apply(training, model, every, weakref.WeakSet())
    return training.done.get("activation-checkpointing", {})


class Unit(nn.Module):
    """Two layers and what may be different a second time."""

    def __init__(self, width=16):
        super().__init__()
        self.first, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width)
        self.second, self.drop = nn.Linear(width, width), nn.Dropout(0.5)
        self.relu = nn.ReLU(inplace=True)  # of what the block made itself
        self.register_buffer("mean", torch.zeros(width))
        self.calls, self.aux = 0, None

    def forward(self, x, *, scale=1.0):
        self.calls += 1
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        hidden = self.relu(self.norm(self.first(x) - self.mean))
        self.aux = hidden.square().mean()
        keep = 1.0 if random.random() < 0.5 else 0.5
        return x + scale * keep * self.drop(self.second(hidden))


class Net(nn.Module):
    def __init__(self, kind=Unit, count=6, **options):
        super().__init__()
        self.blocks = nn.ModuleList(kind(**options) for _ in range(count))
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def trained(model, *, steps=5, around=contextlib.nullcontext, loss=None):
    """Every number there is after some steps, and the losses."""
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        with around():
            made = model(torch.randn(8, 16))
        found = made.float().square().mean() if loss is None else loss(model, made)
        found.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(found.item())
    return [*losses, *(one.tolist() for one in model.state_dict().values())]


def both(model, *, every=1, **how):
    """What is learned with it and without."""
    other = copy.deepcopy(model)
    done = applied(other, every)
    return trained(model, **how), trained(other, **how), done
