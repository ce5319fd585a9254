"""Cells are functions that have a process to themselves; here they leave torch as it was."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _threads_as_before():
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else None
    yield
    if torch is not None:
        torch.set_num_threads(before)
