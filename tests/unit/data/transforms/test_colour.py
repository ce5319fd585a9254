"""ColorJitter against the definitions, one image and one operation at a time."""

import colorsys
import itertools

import pytest
import torch

from hotlap.data.transforms import ColorJitter

GREY = (0.2989, 0.587, 0.114)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count, channels=3, size=5):
    return torch.randint(
        0, 256, (count, channels, size, size), dtype=torch.uint8, generator=seeded(1)
    )


def adjusted(image, operation, factor, whole):
    """One operation on one image, as torchvision documents it; hue by Python's own colorsys."""
    grey = sum(part * weight for part, weight in zip(image, GREY, strict=True))
    if operation == 3:
        scale = 255 if whole else 1
        result = torch.empty_like(image)
        for row, column in itertools.product(*map(range, image.shape[1:])):
            red, green, blue = (image[:, row, column] / scale).tolist()
            hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
            colour = colorsys.hsv_to_rgb((hue + factor) % 1, saturation, value)
            result[:, row, column] = torch.tensor(colour)
        return (result * 255.999).floor() if whole else result
    if whole:
        grey = grey.floor()
    other = {0: torch.zeros(()), 1: grey.mean(), 2: grey}[operation]
    mixed = (factor * image + (1 - factor) * other).clamp(0, 255 if whole else 1)
    return mixed.floor() if whole else mixed


@pytest.mark.parametrize("hue", [0, 0.2])
@pytest.mark.parametrize("whole", [True, False])
def test_each_image_is_adjusted_by_its_factors_in_its_order(whole, hue):
    jitter = ColorJitter(0.4, 0.5, 0.6, hue)
    batch = pictures(30) if whole else pictures(30) / 255
    factors, order = jitter.draw(30, (3, 5, 5), seeded())
    result = jitter.apply(batch, (factors, order))
    assert result.dtype == batch.dtype
    apart = 0
    for index in range(30):
        expected = batch[index].double()
        for operation in order[index].tolist():
            if operation == 3 and not hue:
                continue
            factor = float(factors[index, operation])
            expected = adjusted(expected, operation, factor, whole)
        difference = (result[index].double() - expected).abs()
        # Where double precision falls on the other side of a whole number, one unit is lost,
        # and contrast or saturation may carry it on.
        assert difference.max() <= (3 if whole else 2e-5)
        apart += int((difference > 0).sum())
    assert not whole or apart <= 0.02 * batch.numel()


def test_the_orders_are_all_equally_likely():
    _, order = ColorJitter(0.1).draw(24 * 500, (3, 5, 5), seeded())
    counts = torch.bincount((order * torch.tensor([64, 16, 4, 1])).sum(1), minlength=256)
    counts = counts[counts > 0]
    assert len(counts) == 24
    assert float(((counts - 500) ** 2 / 500).sum()) < 49.7  # 23 degrees of freedom, 0.999


def test_factors_are_drawn_evenly_from_their_ranges():
    factors, _ = ColorJitter(0.4, 2.0, (0.2, 0.3), 0.1).draw(10_000, (3, 5, 5), seeded())
    for column, (low, high) in zip(
        factors.T, ((0.6, 1.4), (0, 3), (0.2, 0.3), (-0.1, 0.1)), strict=True
    ):
        assert low <= column.min() <= low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) <= column.max() <= high
        counts = torch.histc(column, bins=20, min=low, max=high)
        assert float(((counts - 500) ** 2 / 500).sum()) < 43.8  # 19 degrees of freedom, 0.999


def test_factors_of_one_change_nothing():
    batch = pictures(4)
    assert torch.equal(ColorJitter()(batch), batch)


def test_turning_the_hue_once_around_changes_nothing():
    batch = pictures(4) / 255
    jitter = ColorJitter(hue=(0.5, 0.5))
    assert torch.allclose(jitter(jitter(batch)), batch, atol=1e-6)


def test_grey_images_have_no_hue_and_no_saturation():
    batch = pictures(4, channels=1)
    assert torch.equal(ColorJitter(saturation=0.5, hue=0.5)(batch), batch)
    assert not torch.equal(ColorJitter(contrast=0.9)(batch, generator=seeded()), batch)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ColorJitter(-1), "must not be negative"),
        (lambda: ColorJitter(hue=0.7), "half the colour circle"),
        (lambda: ColorJitter(contrast=(0.9, 0.1)), "contrast is"),
        (lambda: ColorJitter(0.1)(pictures(1, channels=2)), "1 or 3 channels"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
