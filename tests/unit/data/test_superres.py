from __future__ import annotations

from typing import Any

import pytest
import torch

from hotlap.data.decoding import ImageError
from hotlap.data.superres import Pairs, smaller
from hotlap.data.synthetic import SyntheticImages


@pytest.fixture(scope="module")
def images() -> Any:
    return SyntheticImages(count=6, size=48).images


@pytest.mark.parametrize("scale", [2, 3, 4, 8])
def test_the_small_one_has_scale_times_fewer_rows_and_columns(images: Any, scale: int) -> None:
    small, large = Pairs(images, scale=scale, crop=24)[0]
    assert large.shape == (3, 24, 24)
    assert small.shape == (3, 24 // scale, 24 // scale)


def test_the_large_one_is_a_piece_of_the_image(images: Any) -> None:
    for index in range(6):
        _, large = Pairs(images, crop=16, dtype=torch.uint8)[index]
        pieces = images[index].unfold(1, 16, 1).unfold(2, 16, 1).permute(1, 2, 0, 3, 4)
        assert bool((pieces == large).flatten(2).all(2).any())


def test_the_small_one_is_the_large_one_scaled(images: Any) -> None:
    small, large = Pairs(images, scale=4, crop=32, downscale="area", dtype=torch.uint8)[2]
    means = large.float().view(3, 8, 4, 8, 4).mean((2, 4))
    assert torch.equal(small, means.round().to(torch.uint8))


def test_bicubic_keeps_what_is_flat_and_stays_within_uint8() -> None:
    flat = torch.full((3, 16, 16), 200, dtype=torch.uint8)
    assert bool((smaller(flat, 2) == 200).all())
    edge = torch.zeros(3, 16, 16, dtype=torch.uint8)
    edge[:, :, 7:] = 255  # bicubic overshoots here, and 256 would become 0
    assert int(smaller(edge, 2)[0, 0, -1]) == 255
    assert int(smaller(edge, 2)[0, 0, 0]) == 0


def test_floats_are_the_bytes_over_255(images: Any) -> None:
    exact = Pairs(images, crop=16, dtype=torch.uint8)[1]
    for value, byte in zip(Pairs(images, crop=16)[1], exact, strict=True):
        assert value.dtype == torch.float32
        assert torch.equal(value, byte.float() / 255)


def test_the_piece_follows_from_seed_index_and_epoch_alone(images: Any) -> None:
    def pieces(seed: int, epoch: int, order: Any) -> Any:
        pairs = Pairs(images, crop=16, seed=seed)
        pairs.set_epoch(epoch)
        return torch.stack([pairs[index][1] for index in order])

    first = pieces(0, 0, range(6))
    assert torch.equal(first, pieces(0, 0, reversed(range(6))).flip(0))
    assert not torch.equal(first, pieces(0, 1, range(6)))
    assert not torch.equal(first, pieces(1, 0, range(6)))
    assert torch.equal(pieces(3, 7, range(6)), pieces(3, 7, range(6)))


def test_pieces_come_from_everywhere(images: Any) -> None:
    marked = torch.arange(20 * 20, dtype=torch.int64).remainder(256).to(torch.uint8)
    pairs = Pairs(marked.view(1, 1, 20, 20), crop=18, dtype=torch.uint8)
    corners = set()
    for epoch in range(100):
        pairs.set_epoch(epoch)
        corners.add(int(pairs[0][1][0, 0, 0]))
    assert corners == {20 * row + column for row in range(3) for column in range(3)}


def test_workers_that_live_on_see_the_next_epoch(images: Any) -> None:
    pairs = Pairs(images, crop=16)
    loader = torch.utils.data.DataLoader(
        pairs, batch_size=6, num_workers=1, persistent_workers=True
    )
    for epoch in range(2):
        pairs.set_epoch(epoch)
        (_, large) = next(iter(loader))
        assert torch.equal(large, torch.stack([pairs[index][1] for index in range(6)]))
        assert pairs.epoch == epoch


def test_without_a_crop_all_that_can_be_divided_is_taken() -> None:
    small, large = Pairs([torch.zeros(3, 17, 22, dtype=torch.uint8)], scale=4)[0]
    assert (large.shape, small.shape) == ((3, 16, 20), (3, 4, 5))


def test_data_sets_with_labels_are_taken_as_well() -> None:
    made = SyntheticImages(count=3)
    pairs = Pairs(made, crop=16)
    assert len(pairs) == len(list(pairs)) == 3
    assert torch.equal(pairs[-1][1], Pairs(made.images, crop=16)[2][1])


def test_the_images_are_not_handed_out_to_be_written_to(images: Any) -> None:
    before = images.clone()
    for value in Pairs(images, crop=48, dtype=torch.uint8)[0]:
        value.zero_()
    assert torch.equal(images, before)


@pytest.mark.parametrize(
    "wrong", [{"scale": 5}, {"crop": 15}, {"downscale": "nearest"}, {"dtype": torch.float16}]
)
def test_what_cannot_be_is_refused(images: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Pairs(images, **wrong)


def test_images_that_are_too_small_or_no_bytes_are_named(images: Any) -> None:
    with pytest.raises(ImageError, match="image 4 is 48 x 48: no piece of 64 x 64"):
        Pairs(images, crop=64)[4]
    with pytest.raises(TypeError, match=r"image 1 is torch\.float32"):
        Pairs(images.float())[1]
