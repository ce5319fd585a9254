"""Data sets that do as a test says, and the threads that fetch from them."""

import threading


class Squares:
    """Samples that are made by a function of the test."""

    def __init__(self, made=lambda index: index * index, length=64):
        self.made, self.length = made, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.made(index)


class Together(Squares):
    """Has `__getitems__` itself, and notes what it was asked for."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = []

    def __getitems__(self, indices):
        self.asked.append(list(indices))
        return [self.made(index) for index in indices]


def fetching():
    return [thread for thread in threading.enumerate() if thread.name == "hotlap-fetch"]


# What it fetches ---------------------------------------------------------------------------------
