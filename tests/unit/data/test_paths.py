"""Paths: strings in two tensors, read as from a list."""

import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hotlap.data.paths import Paths


@given(st.lists(st.text()))
def test_paths_are_what_was_put_in(strings):
    paths = Paths(strings)
    assert [paths[at] for at in range(len(paths))] == strings
    assert [paths[-at] for at in range(1, len(paths) + 1)] == strings[::-1]
    assert list(pickle.loads(pickle.dumps(paths))) == strings


def test_file_names_that_are_no_text_survive():
    assert Paths(["\udcff.jpg", Path("a/b.jpg")])[0] == "\udcff.jpg"


def test_any_kind_of_whole_number_is_an_index():
    paths = Paths(iter(["a", "b"]))
    assert (paths[torch.tensor(1)], paths[True]) == ("b", "b")
    for beyond in (2, -3):
        with pytest.raises(IndexError, match=f"path {beyond} of 2"):
            paths[beyond]
    with pytest.raises(TypeError):
        paths["a"]


@pytest.mark.parametrize("wrong", ["a.jpg", b"a.jpg", [1], [b"a.jpg"]])
def test_what_is_no_sequence_of_strings_is_refused(wrong):
    with pytest.raises(TypeError, match=r"sequence|a path is a string"):
        Paths(wrong)


def test_no_object_is_kept_for_each_path():
    """Else every worker would copy them, page by page, by counting references."""
    paths = Paths(f"train/{at}.jpg" for at in range(1000))
    assert all(isinstance(kept, torch.Tensor) for kept in vars(paths).values())
