"""A cache that looks at samples opens nothing that workers would share."""

import os

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from hotlap.data.tiered import Tiered

COUNT, SIZE = 4000, 512


class Handle:
    """A position in a file, which whoever inherits it shares."""

    def __init__(self, path):
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self):
        os.close(self.number)


class Lazy(Dataset):
    """Opens its file with the first sample, so that every worker has one of its own."""

    def __init__(self, path, transform=None):
        self.path, self.transform, self.file = path, transform, None

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        if self.file is None:
            self.file = Handle(self.path)
        os.lseek(self.file.number, index * SIZE, os.SEEK_SET)
        sample = torch.frombuffer(bytearray(os.read(self.file.number, SIZE)), dtype=torch.int64)
        return sample if self.transform is None else self.transform(sample)


def flipped(sample):
    return sample.flip(0) if torch.rand(()) < 0.5 else sample


@pytest.fixture
def path(tmp_path):
    numbers = torch.arange(COUNT).repeat_interleave(SIZE // 8)
    (tmp_path / "blob").write_bytes(numbers.numpy().tobytes())
    return tmp_path / "blob"


@pytest.mark.parametrize("transform", [None, flipped])
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_is_opened_with_the_first_sample_is_closed_to_the_workers(path, transform, wrapped):
    own = Lazy(path, transform)
    cached = Tiered(Subset(own, range(COUNT)) if wrapped else own, ram="16 MB")
    assert own.file is None
    loader = DataLoader(cached, 64, num_workers=2)
    for _ in range(2):
        seen = torch.cat(list(loader))
        assert torch.equal(seen[:, 0], torch.arange(COUNT))
        assert (seen == seen[:, :1]).all()
    assert cached.outdated() is None


def test_a_file_that_is_opened_in_this_process_ends_no_cache(path):
    cached = Tiered(Lazy(path), ram="16 MB")
    for index in range(100):
        assert cached[index][0] == index
    assert cached.outdated() is None
    assert cached[0][0] == 0
    assert cached.hits()["ram"] > 0
