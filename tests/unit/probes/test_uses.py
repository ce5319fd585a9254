"""What a script does for speed by itself, also where it says so by the switches of newer torch."""

from types import SimpleNamespace

import pytest
import torch

from hotlap.probes.modules import Makeup
from hotlap.probes.uses import Uses


@pytest.fixture
def matmul():
    """torch's own switch for products of float32 matrices, put back afterwards."""
    switch = torch.backends.cuda.matmul
    if not hasattr(switch, "fp32_precision"):
        pytest.skip("this torch has the older switch alone")
    yield switch
    switch.fp32_precision = "none"


def told(of):
    uses = Uses()
    uses.scaler = True
    return uses.summary(of, Makeup(names=[], layers={"Linear": 1}, types={"float32": 1}), None)


def test_tf32_by_the_newer_switch_is_known_and_hides_nothing_else(matmul):
    matmul.fp32_precision = "tf32"
    found = told(torch)
    assert found["matmul_precision"] == "high"
    assert found["scaler"]
    assert found["layers"] == {"Linear": 1}


@pytest.mark.parametrize(("newer", "precision"), [("tf32", "high"), ("ieee", "highest")])
def test_where_torch_refuses_the_older_question_the_newer_one_is_asked(newer, precision):
    def refuse():
        raise RuntimeError("mix of the legacy and new APIs")

    backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=SimpleNamespace(fp32_precision=newer)),
        cudnn=SimpleNamespace(benchmark=False),
    )
    fake = SimpleNamespace(get_float32_matmul_precision=refuse, backends=backends)
    assert told(fake)["matmul_precision"] == precision
