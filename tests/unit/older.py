"""What older versions of torch do not have, for the tests that need it."""

import pytest
import torch

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

parts_built_in = pytest.mark.skipif(
    VERSION < (2, 5), reason="a graph of torch 2.4 calls torch's own modules as a whole"
)
named_parameters = pytest.mark.skipif(
    VERSION < (2, 6), reason="optimizers take named parameters from torch 2.6 on"
)
