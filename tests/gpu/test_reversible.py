"""Reversible blocks on a GPU: random numbers and autocast of CUDA are the forward pass's again."""

import copy

import pytest
import torch
from torch import nn

from hotlap.models.reversible import ReversibleBlock, ReversibleSequential


def branch(dropout):
    return nn.Sequential(
        nn.BatchNorm2d(16), nn.SiLU(), nn.Dropout(dropout), nn.Conv2d(16, 16, 3, padding=1)
    )


def both(dropout, dtype):
    torch.manual_seed(0)
    blocks = [ReversibleBlock(branch(dropout), branch(dropout)) for _ in range(4)]
    plain = nn.Sequential(*blocks).to("cuda", dtype)
    return plain, ReversibleSequential(*copy.deepcopy(list(plain)))


def trained(model, x, *, autocast=False):
    torch.manual_seed(5)
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        y = model(x)
    y.float().square().mean().backward()
    after = torch.rand(1, device="cuda").item()
    return y, {name: one.grad for name, one in model.named_parameters()}, after


def test_dropout_draws_the_same_again_and_the_users_numbers_go_on_undisturbed():
    plain, reversible = both(0.4, torch.float64)
    x = torch.randn(4, 32, 8, 8, device="cuda", dtype=torch.float64)
    expected, found = trained(plain, x), trained(reversible, x)
    torch.testing.assert_close(found[:2], expected[:2])
    assert found[2] == expected[2]


def test_autocast_is_the_forward_passes_and_the_stream_stays_float():
    plain, reversible = both(0.0, torch.float32)
    x = torch.randn(4, 32, 8, 8, device="cuda")
    expected, found = trained(plain, x, autocast=True), trained(reversible, x, autocast=True)
    assert found[0].dtype == torch.float32
    for name, gradient in expected[1].items():
        assert found[1][name].dtype == gradient.dtype == torch.float32
        assert (found[1][name] - gradient).norm() <= 0.1 * gradient.norm() + 1e-4, name


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_what_is_kept_does_not_grow_with_depth(dropout):
    kept = []
    for count in (4, 40):
        blocks = [ReversibleBlock(branch(dropout), branch(dropout)) for _ in range(count)]
        model = ReversibleSequential(*blocks).to("cuda")
        x = torch.randn(8, 32, 32, 32, device="cuda")
        before = torch.cuda.memory_allocated()
        y = model(x)
        kept.append(torch.cuda.memory_allocated() - before)
        del y
    assert kept[0] == kept[1]


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_a_graph_of_its_training_is_refused_and_one_of_its_evaluation_works():
    _, model = both(0.0, torch.float32)
    x = torch.randn(4, 32, 8, 8, device="cuda")
    trained(model, x)
    refused = pytest.raises(RuntimeError, match="CUDA graph cannot be captured")
    with refused, torch.cuda.graph(torch.cuda.CUDAGraph()):
        model(x)
    model.eval()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        expected = model(x)
        with torch.cuda.graph(graph):
            found = model(x)
    graph.replay()
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0.01)
