"""Cutout and RandomErasing: where the holes are, and how large."""

import math

import pytest
import torch

from hotlap.data.transforms import Cutout, RandomErasing


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def full(count, height=12, width=9, dtype=torch.uint8):
    return torch.full((count, 3, height, width), 200, dtype=dtype)


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("value", [0, 7, (1, 2, 3)])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_cutout_is_the_square_around_its_centre_clipped_at_the_border(size, value, dtype):
    batch, cutout = full(80, dtype=dtype), Cutout(size, value=value)
    drawn = cutout.draw(80, (3, 12, 9), seeded())
    result = cutout.apply(batch, drawn)
    paint = torch.tensor(value if isinstance(value, tuple) else (value,) * 3).to(dtype)
    for index, (row, column) in enumerate(zip(*(part.tolist() for part in drawn), strict=True)):
        top, left = row - size // 2, column - size // 2
        expected = batch[index].clone()
        expected[:, max(0, top) : top + size, max(0, left) : left + size] = paint.view(3, 1, 1)
        assert torch.equal(result[index], expected)


def test_every_pixel_is_equally_likely_to_be_the_centre():
    rows, columns = Cutout(4).draw(108 * 300, (3, 12, 9), seeded())
    counts = torch.bincount(rows * 9 + columns, minlength=108)
    assert len(counts) == 108
    assert chi_square(counts, 300) < 157  # 107 degrees of freedom, 0.999


@pytest.mark.parametrize("value", [0, 0.5, (1, 2, 3)])
def test_what_is_not_a_number_does_not_leak_out_of_a_hole(value):
    batch = full(4, dtype=torch.float32)
    batch[:] = torch.nan
    result = Cutout(100, value=value)(batch, generator=seeded())
    assert not result.isnan().any()


def test_a_rectangle_is_erased_where_it_was_drawn():
    batch, erasing = full(60), RandomErasing(0.7, value=9)
    drawn = erasing.draw(60, (3, 12, 9), seeded())
    result = erasing.apply(batch, drawn)
    for index, (top, left, tall, wide) in enumerate(
        zip(*(part.tolist() for part in drawn), strict=True)
    ):
        expected = batch[index].clone()
        expected[:, top : top + tall, left : left + wide] = 9
        assert torch.equal(result[index], expected)


def test_rectangles_have_the_area_the_ratio_and_the_rate_that_were_asked_for():
    size, count = 1000, 20_000
    top, left, tall, wide = RandomErasing(0.4).draw(count, (3, size, size), seeded())
    erased = tall > 0
    assert abs(float(erased.float().mean()) - 0.4) < 4 * math.sqrt(0.24 / count)
    area = (tall * wide)[erased] / size**2
    ratio = (tall / wide)[erased].log()
    assert 0.0195 < area.min() < 0.03
    assert 0.32 < area.max() < 0.3305
    assert abs(float(area.mean()) - 0.175) < 0.005
    assert math.log(0.295) < ratio.min() < math.log(0.32)
    assert math.log(3.1) < ratio.max() < math.log(3.35)
    assert ((top + tall)[erased] <= size).all()
    assert ((left + wide)[erased] <= size).all()


def test_places_of_a_rectangle_are_equally_likely():
    whole = RandomErasing(1.0, scale=(0.25, 0.25), ratio=(1, 1))
    top, left, tall, _ = whole.draw(25 * 400, (3, 8, 8), seeded())
    assert (tall == 4).all()
    counts = torch.bincount(top * 5 + left, minlength=25)
    assert chi_square(counts, 400) < 51.2  # 24 degrees of freedom, 0.999


def test_an_image_into_which_nothing_fits_stays_whole():
    batch = full(10)
    assert torch.equal(RandomErasing(1.0, scale=(1, 1), ratio=(1, 1))(batch), batch)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Cutout(0), "holds no pixel"),
        (lambda: RandomErasing(2.0), "between 0 and 1"),
        (lambda: RandomErasing(scale=(0.5, 0.2)), "scale is"),
        (lambda: RandomErasing(ratio=(0, 1)), "ratio is"),
        (lambda: Cutout(3, value=(1, 2))(full(1)), "value has 2 values"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_square_of_no_whole_number_is_refused():
    with pytest.raises(TypeError, match="a whole number of pixels"):
        Cutout(True)


@pytest.mark.parametrize("value", [300, -1, (0, 0, 256)])
@pytest.mark.parametrize("make", [RandomErasing, lambda value: Cutout(4, value=value)])
def test_a_value_that_uint8_cannot_hold_is_refused(make, value):
    erase = make(value=value)
    with pytest.raises(ValueError, match="uint8 images hold 0 to 255"):
        erase(full(2))
    assert erase(full(2).float()).shape == (2, 3, 12, 9)
