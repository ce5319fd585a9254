"""A data set that counts what it makes, and an epoch over a cache of it."""

import torch
from torch.utils.data import DataLoader, Dataset

MB = 1_000_000


class Numbers(Dataset):
    """Each sample is its index; how often each was made is counted for all processes."""

    def __init__(self, count=40, size=10, broken=()):
        self.count, self.size, self.broken = count, size, set(broken)
        self.made = torch.zeros(count, dtype=torch.int64).share_memory_()
        self.classes = ["even", "odd"]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index in self.broken:
            raise OSError(f"cannot read {index}")
        self.made[index] += 1
        return torch.full((self.size,), index), index % 2


def epoch(cached, **options):
    loader = DataLoader(cached, batch_size=8, shuffle=True, **options)
    seen = {}
    for values, labels in loader:
        for row, label in zip(values, labels, strict=True):
            seen[int(row[0])] = int(label)
            assert (row == row[0]).all()
    return seen


RIGHT = {index: index % 2 for index in range(40)}
