"""What holds for every transform: each image has its own luck, and the input stays as it is."""

import pickle

import pytest
import torch

from hotlap.data import transforms
from hotlap.data.transforms import (
    ColorJitter,
    Compose,
    Convert,
    Crop,
    Cutout,
    Flip,
    Normalize,
    RandomErasing,
    Resize,
    Transform,
)

RANDOM = [
    Crop(8, padding=3),
    Crop(8, padding=3, mode="reflect"),
    Flip(),
    Cutout(4),
    RandomErasing(1.0),
    ColorJitter(0.5, 0.5, 0.5, 0.3),
]
ALL = [*RANDOM, Normalize([0.5] * 3, [0.2] * 3), Convert(torch.float32), Resize(5)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=64, *, size=8, channels=3, seed=1):
    return torch.randint(
        0, 256, (count, channels, size, size), dtype=torch.uint8, generator=seeded(seed)
    )


KINDS = {
    "uint8": lambda batch: batch,
    "floats": lambda batch: batch / 255,
    "channels last": lambda batch: batch.contiguous(memory_format=torch.channels_last),
    "a view": lambda batch: batch.repeat(1, 1, 2, 2)[:, :, ::2, ::2],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_the_input_stays_as_it_is(transform, kind):
    batch = KINDS[kind](pictures())
    before = batch.clone()
    result = transform(batch, generator=seeded())
    result.zero_()
    assert torch.equal(batch, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_how_a_batch_lies_in_memory_does_not_matter(transform, kind):
    batch = KINDS[kind](pictures())
    usual = transform(batch.contiguous(), generator=seeded())
    result = transform(batch, generator=seeded())
    assert result.dtype == usual.dtype
    assert torch.allclose(result.float(), usual.float(), atol=1e-6)


@pytest.mark.parametrize("transform", [*RANDOM, Normalize(0.5, 0.2)], ids=repr)
def test_channels_last_stays_channels_last(transform):
    batch = pictures().contiguous(memory_format=torch.channels_last)
    result = transform(batch, generator=seeded())
    assert result.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_every_image_of_a_batch_has_its_own_luck(transform):
    batch = pictures(1).expand(64, -1, -1, -1)
    results = {tuple(image.flatten().tolist()) for image in transform(batch, generator=seeded())}
    assert len(results) == 2 if isinstance(transform, Flip) else len(results) > 15


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_the_same_seed_gives_the_same_batch(transform):
    first, again = (transform(pictures(), generator=seeded(3)) for _ in range(2))
    other = transform(pictures(), generator=seeded(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_without_a_generator_manual_seed_decides(transform):
    results = []
    for _ in range(2):
        torch.manual_seed(5)
        results.append(transform(pictures()))
    assert torch.equal(*results)


@pytest.mark.parametrize("transform", RANDOM, ids=repr)
def test_what_an_image_becomes_depends_on_its_own_numbers_alone(transform):
    batch = pictures(6)
    drawn = transform.draw(6, (3, 8, 8), seeded())
    together = transform.apply(batch, drawn)
    for index in range(6):
        row = slice(index, index + 1)
        alone = transform.apply(batch[row], tuple(numbers[row] for numbers in drawn))
        assert torch.equal(alone[0], together[index])


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_images_have_the_shape_that_was_announced(transform):
    batch = pictures(2)
    assert tuple(transform(batch).shape[1:]) == transform.shape((3, 8, 8))


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_a_transform_can_be_sent_to_a_worker_and_says_what_it_is(transform):
    copy = pickle.loads(pickle.dumps(transform))
    assert repr(copy) == repr(transform)
    assert repr(transform).startswith(type(transform).__name__)


@pytest.mark.parametrize("transform", ALL[:-1], ids=repr)  # torch resizes no empty batches
def test_an_empty_batch_stays_empty(transform):
    assert len(transform(pictures(0))) == 0


def test_compose_is_one_after_the_other():
    crop, flip, normalize = Crop(6), Flip(), Normalize(0.5, 0.25)
    generator = seeded()
    expected = pictures()
    for transform in (crop, flip, normalize):
        expected = transform(expected, generator=generator)
    composed = Compose([Compose([crop, flip]), normalize])
    assert torch.equal(composed(pictures(), generator=seeded()), expected)
    assert composed.shape((3, 8, 8)) == (3, 6, 6)
    assert composed.transforms == (crop, flip, normalize)


def test_compose_of_nothing_is_the_batch():
    batch = pictures()
    assert torch.equal(Compose([])(batch), batch)


def test_compose_takes_transforms_only_and_says_what_to_do():
    with pytest.raises(TypeError, match="Make it one"):
        Compose([torch.relu])


def test_a_transform_of_ones_own_needs_apply_alone():
    class Invert(Transform):
        def apply(self, batch, drawn):
            return 255 - batch

    batch = pictures()
    assert torch.equal(Compose([Invert(), Invert()])(batch), batch)


@pytest.mark.parametrize("batch", [torch.zeros(3, 8, 8), torch.zeros(2, 3, 8, 8, dtype=torch.int)])
def test_what_is_no_batch_of_images_is_refused(batch):
    with pytest.raises(ValueError, match="count x channels x height x width"):
        Flip()(batch)


def test_all_transforms_are_tested_here():
    names = {type(transform).__name__ for transform in ALL}
    assert names == set(transforms.__all__) - {"Compose", "Transform"}
