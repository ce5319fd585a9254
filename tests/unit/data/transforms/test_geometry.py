"""Crop, Flip and Resize against torchvision's definitions, one image at a time."""

import itertools

import pytest
import torch
from torch.nn import functional

from hotlap.data.transforms import Crop, Flip, Resize


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count, height=8, width=10, channels=3):
    return torch.randint(
        0, 256, (count, channels, height, width), dtype=torch.uint8, generator=seeded(1)
    )


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


def test_every_crop_is_the_window_that_was_drawn():
    batch, crop = pictures(40), Crop((7, 9), padding=(3, 2), fill=9)
    tops, lefts = crop.draw(40, (3, 8, 10), seeded())
    result = crop.apply(batch, (tops, lefts))
    for index, (top, left) in enumerate(zip(tops.tolist(), lefts.tolist(), strict=True)):
        padded = functional.pad(batch[index], (3, 3, 2, 2), value=9)
        assert torch.equal(result[index], padded[:, top : top + 7, left : left + 9])


def test_every_place_of_a_crop_is_equally_likely():
    tops, lefts = Crop(32, padding=4).draw(81 * 400, (3, 32, 32), seeded())
    counts = torch.bincount(tops * 9 + lefts, minlength=81)
    assert len(counts) == 81
    assert chi_square(counts, 400) < 124.8  # 80 degrees of freedom, 0.999


def test_every_crop_in_a_batch_is_one_of_the_possible_ones_and_all_occur():
    image = pictures(1, 5, 5)
    padded = functional.pad(image[0], (1, 1, 1, 1))
    possible = {
        tuple(padded[:, top : top + 5, left : left + 5].flatten().tolist())
        for top, left in itertools.product(range(3), range(3))
    }
    result = Crop(5, padding=1)(image.expand(200, -1, -1, -1), generator=seeded())
    assert {tuple(window.flatten().tolist()) for window in result} == possible


@pytest.mark.parametrize("padding", [2, (1, 3), (0, 1, 2, 3)])
def test_padding_by_reflection_is_that_of_torch(padding):
    batch = pictures(4)
    crop = Crop(5, padding=padding, mode="reflect")
    left, top, right, bottom = crop.padding
    expected = functional.pad(batch.float(), (left, right, top, bottom), mode="reflect")
    assert torch.equal(crop.pad(batch).float(), expected)


def test_the_fill_can_differ_by_channel():
    padded = Crop(5, padding=(1, 0), fill=(1, 2, 3)).pad(pictures(2))
    assert padded[0, :, 0, 0].tolist() == [1, 2, 3]
    assert padded[1, :, -1, -1].tolist() == [1, 2, 3]
    assert torch.equal(padded[:, :, :, 1:-1], pictures(2))


@pytest.mark.parametrize("fill", [300, -1, (0, 0, 256)])
def test_a_fill_that_uint8_cannot_hold_is_refused(fill):
    crop = Crop(5, padding=1, fill=fill)
    with pytest.raises(ValueError, match="uint8 images hold 0 to 255"):
        crop(pictures(2))
    assert crop(pictures(2).float()).shape == (2, 3, 5, 5)


def test_cropping_uint8_and_normalising_afterwards_is_padding_before_normalising():
    """pytorch-cifar crops, makes a tensor, then normalises: its border is black, not the mean."""
    from hotlap.data.transforms import Normalize

    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    batch, crop = pictures(8), Crop(8, padding=4)
    drawn = crop.draw(8, (3, 8, 10), seeded())
    result = Normalize(mean, std)(crop.apply(batch, drawn))
    for index, (top, left) in enumerate(zip(*(row.tolist() for row in drawn), strict=True)):
        window = functional.pad(batch[index], (4,) * 4)[:, top : top + 8, left : left + 8]
        expected = (window / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(
            3, 1, 1
        )
        assert torch.allclose(result[index], expected, atol=2e-6)


def test_the_device_path_cuts_the_same_windows_as_the_one_of_the_cpu():
    from hotlap.data.transforms import windows

    images = pictures(30, 9, 11)
    generator = seeded()
    picks = torch.randint(0, 30, (50,), generator=generator)
    tops = torch.randint(0, 4, (50,), generator=generator)
    lefts = torch.randint(0, 5, (50,), generator=generator)
    for layout in (torch.contiguous_format, torch.channels_last):
        whole = images.contiguous(memory_format=layout)
        rows = windows._by_rows(whole, picks, tops, lefts, (6, 7))
        index = windows._by_index(whole, picks, tops, lefts, (6, 7))
        assert torch.equal(rows, index)
        assert rows.stride() == index.stride()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "holds no pixel"),
        ({"size": 4, "padding": -1}, "none of them negative"),
        ({"size": 4, "padding": (1, 2, 3)}, "say one number"),
        ({"size": 4, "mode": "edge"}, "it can be 'constant' or 'reflect'"),
    ],
)
def test_an_impossible_crop_is_refused_when_it_is_made(options, words):
    with pytest.raises(ValueError, match=words):
        Crop(**options)


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        Crop(32)(pictures(2))


def test_more_padding_than_there_is_to_reflect_is_refused():
    with pytest.raises(ValueError, match="cannot be reflected"):
        Crop(8, padding=8, mode="reflect")(pictures(2))


def test_a_fill_for_other_channels_is_refused():
    with pytest.raises(ValueError, match="fill has 2 values"):
        Crop(8, padding=1, fill=(1, 2))(pictures(2))


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_flips_come_as_often_as_asked(p):
    (mirrored,) = Flip(p).draw(20_000, (3, 8, 8), seeded())
    spread = 4 * (p * (1 - p) / 20_000) ** 0.5
    assert abs(float(mirrored.float().mean()) - p) <= spread


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_only_those_drawn_are_mirrored(layout):
    batch = pictures(30).contiguous(memory_format=layout)
    (mirrored,) = Flip().draw(30, (3, 8, 10), seeded())
    result = Flip().apply(batch, (mirrored,))
    for before, after, mirror in zip(batch, result, mirrored.tolist(), strict=True):
        assert torch.equal(after, before.flip(-1) if mirror else before)


def test_crops_and_flips_are_independent():
    generator = seeded()
    tops, lefts = Crop(32, padding=1).draw(9000, (3, 32, 32), generator)
    (mirrored,) = Flip().draw(9000, (3, 32, 32), generator)
    counts = torch.bincount((tops * 3 + lefts) * 2 + mirrored, minlength=18)
    assert chi_square(counts, 500) < 40.8  # 17 degrees of freedom, 0.999


def test_a_probability_outside_zero_and_one_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        Flip(1.5)


@pytest.mark.parametrize(
    ("size", "shape"), [(4, (4, 5)), ((6, 3), (6, 3)), (16, (16, 20)), ((8, 10), (8, 10))]
)
def test_one_number_is_the_shorter_edge_and_a_pair_is_both(size, shape):
    assert Resize(size)(pictures(2)).shape == (2, 3, *shape)
    assert Resize(size).shape((3, 8, 10)) == (3, *shape)
    assert Resize(4).shape((3, 10, 8)) == (3, 5, 4)


def test_resized_uint8_are_the_rounded_floats():
    batch = pictures(3)
    exact = functional.interpolate(
        batch.float(), (4, 5), mode="bilinear", antialias=True, align_corners=False
    )
    assert torch.equal(Resize(4)(batch), exact.round().to(torch.uint8))
    assert torch.equal(Resize(4)(batch.float()), exact)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_are_resized_as_exactly_as_they_can_be(dtype):
    batch = (pictures(3) / 255).to(dtype)
    made = Resize(4)(batch)
    assert made.dtype == dtype
    assert torch.allclose(made.float(), Resize(4)(batch.float()), atol=1e-2)


def test_a_plain_image_stays_plain_when_resized():
    assert (Resize(5)(torch.full((1, 3, 9, 9), 77, dtype=torch.uint8)) == 77).all()


@pytest.mark.parametrize("size", [0, -3, (0, 5), (5, 0)])
def test_a_size_without_pixels_is_refused_when_it_is_made(size):
    with pytest.raises(ValueError, match="holds no pixel"):
        Resize(size)


@pytest.mark.parametrize("made", [Crop, Resize])
@pytest.mark.parametrize("size", [True, 2.5, (2.0, 2)])
def test_a_size_that_is_no_whole_number_is_refused(made, size):
    with pytest.raises(TypeError, match="a whole number of pixels"):
        made(size)


@pytest.mark.parametrize("p", ["a", -0.1, 2, float("nan")])
def test_a_probability_that_is_none_is_refused(p):
    with pytest.raises(ValueError, match=r"p is .*; a probability lies between 0 and 1"):
        Flip(p)
