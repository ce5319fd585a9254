"""Plain models: sizes as in the papers, shapes, and that they learn."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from hotlap.models.resnet import ResNet
from hotlap.models.reversible import ReversibleSequential
from hotlap.models.revnet import Padded, RevNet
from hotlap.models.srresnet import SRResNet


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("depth", "parameters"),
    [(10, 5_418_792), (18, 11_689_512), (34, 21_797_672), (50, 25_557_032)],
)
def test_residual_networks_for_photographs_have_the_known_sizes(depth, parameters):
    with torch.device("meta"):
        assert count(ResNet(depth, stem="imagenet", classes=1000)) == parameters


@pytest.mark.parametrize(
    ("depth", "parameters"), [(10, 4_903_242), (18, 11_173_962), (34, 21_282_122), (50, 23_520_842)]
)
def test_residual_networks_for_small_images_have_the_known_sizes(depth, parameters):
    with torch.device("meta"):
        assert count(ResNet(depth)) == parameters


@pytest.mark.parametrize(("depth", "millions"), [(38, 0.46), (110, 1.73), (164, 1.75)])
def test_reversible_networks_are_as_large_as_the_paper_says(depth, millions):
    with torch.device("meta"):
        assert count(RevNet(depth)) / 1e6 == pytest.approx(millions, rel=0.02)


def test_a_network_of_super_resolution_has_the_size_of_its_layers():
    """First and last 9x9, 16 blocks and one convolution of 3x3, two doublings."""
    blocks = 33 * (64 * 64 * 9 + 2 * 64) + 16
    doublings = 2 * (64 * 256 * 9 + 256 + 1)
    ends = (3 * 64 * 81 + 64 + 1) + (64 * 3 * 81 + 3)
    with torch.device("meta"):
        assert count(SRResNet(4)) == blocks + doublings + ends == 1_547_350


@pytest.mark.parametrize("depth", [38, 110, 164])
def test_layers_are_counted_as_in_the_paper(depth):
    """Convolutions on the way, and the last layer."""
    with torch.device("meta"):
        layers = [
            name
            for name, one in RevNet(depth).named_modules()
            if isinstance(one, (nn.Conv2d, nn.Linear)) and "shortcut" not in name
        ]
    assert len(layers) == depth


@pytest.mark.parametrize(
    ("model", "given", "made"),
    [
        (lambda: ResNet(18, widths=(8, 16, 24, 32)), (2, 3, 32, 32), (2, 10)),
        (lambda: ResNet(50, widths=(4, 8, 8, 8), norm="none"), (2, 3, 32, 32), (2, 10)),
        (lambda: ResNet(10, widths=(8,) * 4, stem="imagenet", classes=7), (1, 3, 64, 80), (1, 7)),
        (lambda: ResNet(10, widths=(8,) * 4, channels=1), (1, 1, 28, 28), (1, 10)),
        (lambda: RevNet(38, units=2), (2, 3, 32, 32), (2, 10)),
        (lambda: RevNet(164, units=1), (1, 3, 32, 32), (1, 10)),
        (lambda: RevNet(38, units=1), (1, 3, 33, 30), (1, 10)),
        (lambda: SRResNet(2, blocks=2, width=8), (1, 3, 12, 16), (1, 3, 24, 32)),
        (lambda: SRResNet(4, blocks=2, width=8), (1, 3, 12, 16), (1, 3, 48, 64)),
    ],
)
def test_shapes(model, given, made):
    assert model()(torch.randn(given)).shape == made


@pytest.mark.parametrize(
    "make",
    [
        lambda: ResNet(10, widths=(8, 8, 16, 16)),
        lambda: ResNet(18, widths=(8, 8, 16, 16), norm="none"),
        lambda: RevNet(38, units=2),
    ],
    ids=["batch", "no norm", "reversible"],
)
def test_a_few_steps_lower_the_loss(make):
    torch.manual_seed(0)
    model = make()
    x, y = torch.randn(16, 3, 16, 16), torch.arange(16) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_a_super_resolution_step_lowers_the_loss():
    torch.manual_seed(0)
    model = SRResNet(2, blocks=2, width=8)
    small, large = torch.rand(2, 3, 8, 8), torch.rand(2, 3, 16, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(small), large)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_without_normalisation_a_new_network_is_its_shortcuts():
    torch.manual_seed(0)
    model = ResNet(34, norm="none", widths=(8, 8, 16, 16)).eval()
    scale = model.stages(model.stem(torch.randn(4, 3, 32, 32))).std()
    assert 0.01 < scale < 100
    assert not [one for one in model.modules() if isinstance(one, nn.BatchNorm2d)]


def test_reversible_or_not_it_is_the_same_network():
    torch.manual_seed(0)
    model = RevNet(38, units=2).double()
    plain = RevNet(38, units=2, reversible=False).double()
    plain.load_state_dict(copy.deepcopy(model.state_dict()))
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    for one in (model, plain):
        one(x).square().sum().backward()
    assert len([one for one in model.modules() if isinstance(one, ReversibleSequential)]) == 3
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ResNet(20), "depth is 20; it can be 10, 18, 34, 50"),
        (lambda: ResNet(18, norm="layer"), "norm is 'layer'"),
        (lambda: ResNet(18, widths=(1, 2)), "there are four stages"),
        (lambda: RevNet(50), "depth is 50"),
        (lambda: RevNet(units=0), "units is 0"),
        (lambda: SRResNet(3), "scale is 3"),
        (lambda: ResNet("18"), "depth is '18'; it can be 10, 18, 34, 50"),
        (lambda: ResNet([18]), r"depth is \[18\]; it can be"),
        (lambda: RevNet("38"), "depth is '38'; it can be 38, 110, 164"),
        (lambda: SRResNet("4"), "scale is '4'; it can be 2, 4"),
    ],
)
def test_what_is_not_there_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ResNet(18, widths=64), "four stages"),
        (lambda: ResNet(18, widths=None), "widths are None; there are four stages"),
        (lambda: ResNet(18, widths=(True, 2, 3, 4)), "width is True"),
        (lambda: ResNet(classes=True), "classes is True; it must be a whole number"),
        (lambda: ResNet(18, widths=(0, 2, 3, 4)), "width is 0"),
        (lambda: ResNet(18, widths=(1.5, 2, 3, 4)), "width is 1.5"),
        (lambda: ResNet(classes=0), "classes is 0"),
        (lambda: ResNet(norm="layer"), "norm is 'layer'; it can be batch or none"),
        (lambda: ResNet(stem="large"), "stem is 'large'"),
        (lambda: RevNet(units=0), "units is 0"),
        (lambda: RevNet(channels=0), "channels is 0"),
        (lambda: SRResNet(blocks=-1), "blocks is -1"),
        (lambda: SRResNet(width=0), "width is 0"),
    ],
)
def test_numbers_that_make_no_network_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_whole_numbers_may_be_numpys():
    model = ResNet(np.int64(10), widths=np.array([8] * 4), classes=np.int32(5))
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 5)
    assert type(model.head[-1].out_features) is int
    assert len(RevNet(np.int64(38), units=np.int64(1)).stages) == 5
    assert SRResNet(np.int64(2), blocks=np.int64(1), width=np.int64(4))


@pytest.mark.parametrize(("size", "rounded_up"), [((8, 6), False), ((8, 7), True)])
def test_a_shortcut_rounds_sizes_up_only_where_it_has_to(size, rounded_up, monkeypatch):
    """torch.compile cannot differentiate a pool that may have to."""
    half, asked = torch.randn(2, 4, *size), []
    pool = functional.avg_pool2d
    monkeypatch.setattr(
        functional,
        "avg_pool2d",
        lambda *given, ceil_mode: asked.append(ceil_mode) or pool(*given, ceil_mode=ceil_mode),
    )
    made = Padded(4, 6, 2)(half)
    assert asked == [rounded_up]
    assert torch.equal(made[:, 1:5], pool(half, 2, ceil_mode=True))
