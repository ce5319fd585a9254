"""A cache that looks at samples leaves the data set as it was, with nothing opened and counted."""

import copy
import os
from collections import Counter, OrderedDict, deque

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from hotlap.data.tiered import Tiered
from hotlap.data.untouched import left_as_it_was

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


class Diary:
    def __init__(self):
        self.asked = 0


class Counting(Dataset):
    """Keeps what it was asked for, in all the ways there are."""

    def __init__(self):
        self.array, self.tensor = numpy.zeros(40), torch.zeros(40)
        self.list, self.set, self.queue = [[0] for _ in range(40)], {-1}, deque([-1])
        self.dict, self.counter, self.ordered = {"asked": 0}, Counter([-1]), OrderedDict(a=0)
        self.bytes, self.diary, self.diaries = bytearray(40), Diary(), [Diary() for _ in range(70)]

    def __len__(self):
        return 40

    def __getitem__(self, index):
        for one in (self.array, self.tensor, self.list[index]):
            one[index if len(one) > 1 else 0] += 1
        for asked in (self.set.add, self.queue.append):
            asked(index)
        self.dict["asked"] += 1
        self.counter[index] += 1
        self.ordered[index] = index
        self.ordered.move_to_end("a")
        self.bytes[index] += 1
        self.diary.asked += 1
        self.diary.last = index
        self.diaries[index].asked += 1
        return torch.tensor([index])

    def told(self):
        diaries = [vars(one) for one in (self.diary, *self.diaries)]
        held = {**vars(self), "diary": 0, "diaries": 0, "array": self.array.tolist()}
        return copy.deepcopy({**held, "tensor": self.tensor.tolist(), "held": diaries})


def test_what_a_data_set_counts_inside_of_what_it_holds_is_as_it_was():
    data = Counting()
    before = data.told()
    with left_as_it_was(data):
        for index in (0, 1, 1, 39):
            data[index]
        assert data.told() != before
    assert data.told() == before
    data[3]
    assert list(data.ordered) == [3, "a"]


def test_a_cache_that_looks_at_samples_is_not_counted():
    data = Counting()
    before = data.told()
    Tiered(data, ram="1 MB")
    assert data.told() == before


class Reader:
    """Goes on from where it is, which its file knows as well."""

    def __init__(self, file):
        self.file, self.at = file, 0

    def read(self, index):
        if self.at != index:
            self.file.seek(index)
        self.at = index + 1
        return self.file.read(1)


def test_what_an_object_notes_of_its_open_file_stays_true(tmp_path):
    (tmp_path / "bytes").write_bytes(bytes(range(100)))
    with (tmp_path / "bytes").open("rb") as file:
        data = Counting()
        data.reader = Reader(file)
        with left_as_it_was(data):
            data.reader.read(50)
        assert data.reader.read(0) == b"\0"
