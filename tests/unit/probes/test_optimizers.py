import gc
from types import SimpleNamespace

import pytest

from hotlap.probes.optimizers import Optimizers


class Adam:
    """Enough of an optimizer."""

    def __init__(self, *groups):
        self.param_groups = list(groups) or [{"params": ["w", "b"], "fused": None, "foreach": None}]


def test_what_was_made_is_described_with_its_place():
    optimizers = Optimizers()
    optimizers.made(Adam(), ("/home/user/train.py", 26, "main"))
    assert optimizers.summary() == [
        {
            "name": "Adam",
            "torchs_own": False,
            "tensors": 2,
            "fused": None,
            "foreach": None,
            "can_fuse": True,
            "file": "/home/user/train.py",
            "line": 26,
        }
    ]


def test_torchs_own_optimizers_are_known_by_their_module():
    kind = type("SGD", (Adam,), {"__module__": "torch.optim.sgd"})
    optimizers = Optimizers()
    optimizers.made(kind({"params": ["w"], "fused": True}, {"params": ["b", "c"]}), None)
    (facts,) = optimizers.summary()
    assert (facts["torchs_own"], facts["tensors"], facts["fused"]) == (True, 3, True)
    assert facts["file"] is None


def test_an_optimizer_that_knows_no_fused_cannot_fuse():
    optimizers = Optimizers()
    optimizers.made(Adam({"params": []}), None)
    assert optimizers.summary()[0]["can_fuse"] is False


def test_there_are_none_until_one_is_made():
    optimizers = Optimizers()
    assert not optimizers
    optimizers.made(Adam(), None)
    assert optimizers


def test_while_none_has_stepped_everything_made_is_trained():
    optimizers = Optimizers()
    one, other = Adam({"params": ["a"]}), Adam({"params": ["b"]}, {"params": ["c"]})
    optimizers.made(one, None)
    optimizers.made(other, None)
    assert list(optimizers.parameters()) == ["a", "b", "c"]
    optimizers.stepped(other)
    assert list(optimizers.parameters()) == ["b", "c"]


def test_an_optimizer_that_was_thrown_away_trains_nothing():
    optimizers = Optimizers()
    optimizers.made(Adam({"params": ["a"]}), None)
    gc.collect()
    assert list(optimizers.parameters()) == []
    assert optimizers


def test_one_that_steps_without_having_been_seen_made_is_known_from_then_on():
    optimizers = Optimizers()
    late = Adam()
    optimizers.stepped(late)
    optimizers.stepped(late)
    assert len(optimizers.summary()) == 1
    assert list(optimizers.stepping.values()) == [late]


@pytest.mark.parametrize("thing", [SimpleNamespace(), SimpleNamespace(param_groups=[])])
def test_something_that_is_hardly_an_optimizer_is_described_all_the_same(thing):
    optimizers = Optimizers()
    optimizers.made(thing, None)
    assert optimizers.summary()[0]["tensors"] == 0


def test_no_more_than_a_handful_is_told():
    optimizers = Optimizers()
    kept = [Adam() for _ in range(20)]
    for one in kept:
        optimizers.made(one, None)
    assert len(optimizers.summary()) == 8
