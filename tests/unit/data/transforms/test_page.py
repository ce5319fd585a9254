"""What docs/data/transforms.md shows runs, and names every transform."""

import re
from pathlib import Path

import torch

from hotlap.data import transforms

PAGE = (Path(__file__).parents[4] / "docs/data/transforms.md").read_text()


def test_the_examples_of_the_page_run():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    assert names["inputs"].shape[1:] == (3, 32, 32)
    assert names["Noise"]()(torch.zeros(4, 3, 8, 8)).abs().sum() > 0


def test_every_transform_is_on_the_page():
    for name in set(transforms.__all__) - {"Transform"}:
        assert f"| `{name}(" in PAGE
