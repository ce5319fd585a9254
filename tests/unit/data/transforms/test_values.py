"""Normalize and Convert against the arithmetic that scripts write."""

import pytest
import torch

from hotlap.data.resident import DeviceDataset
from hotlap.data.transforms import Convert, Normalize

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
EVERY = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(2, 3, 16, 16)


def by_hand(batch):
    """ToTensor, then Normalize, in double precision."""
    mean, std = (torch.tensor(values, dtype=torch.float64).view(3, 1, 1) for values in (MEAN, STD))
    return (batch.double() / 255 - mean) / std


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_uint8_are_scaled_and_normalised_at_once(layout):
    result = Normalize(MEAN, STD)(EVERY.contiguous(memory_format=layout))
    assert result.dtype == torch.float32
    assert torch.allclose(result.double(), by_hand(EVERY), atol=1e-6)


def test_floats_are_taken_as_zero_to_one():
    result = Normalize(MEAN, STD)(EVERY / 255)
    assert torch.allclose(result.double(), by_hand(EVERY), atol=1e-6)


def test_one_kernel_gives_what_the_passes_on_the_cpu_give():
    from hotlap.data.transforms.transform import column
    from hotlap.data.transforms.values import _in_passes

    device = torch.device("cpu")
    factor = column(tuple(1 / (255 * std) for std in STD), device)
    offset = column(tuple(-mean / std for mean, std in zip(MEAN, STD, strict=True)), device)
    batch = EVERY.contiguous()
    one = torch.addcmul(offset, batch, factor)
    assert one.dtype == torch.float32
    assert torch.allclose(one, _in_passes(batch, factor, offset), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_result_can_be_of_another_type(dtype):
    result = Normalize(MEAN, STD, dtype=dtype)(EVERY)
    assert result.dtype == dtype
    assert torch.allclose(result.double(), by_hand(EVERY), atol=2e-2)


def test_one_mean_can_serve_all_channels():
    assert torch.allclose(Normalize(0.5, 0.25)(EVERY), (EVERY / 255 - 0.5) / 0.25, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Normalize(0.5, 0), "must be positive"),
        (lambda: Normalize((0.5, 0.5), 1), "2 means, but 1"),
        (lambda: Normalize(0.5, 1, dtype=torch.uint8), "are floats"),
        (lambda: Normalize((0.5, 0.5), (1, 1))(EVERY), "mean has 2 values"),
        (
            lambda: DeviceDataset(EVERY, [0], batch_size=1, transform=Normalize((1, 1), (1, 1))),
            "mean has 2 values",
        ),
        (lambda: Convert(torch.int64), "scale=False"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_uint8_become_floats_from_zero_to_one():
    result = Convert(torch.float32)(EVERY)
    assert torch.equal(result, EVERY.float() / 255)
    assert result.max() == 1


def test_floats_and_back_are_the_same_uint8():
    assert torch.equal(Convert(torch.uint8)(Convert(torch.float32)(EVERY)), EVERY)


def test_without_scale_values_stay():
    assert torch.equal(Convert(torch.float32, scale=False)(EVERY), EVERY.float())
    assert Convert(torch.int64, scale=False)(EVERY).dtype == torch.int64


def test_floats_of_another_width_keep_their_values():
    assert torch.equal(Convert(torch.float64)(EVERY / 255), (EVERY / 255).double())
