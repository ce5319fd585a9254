from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from hotlap.data.synthetic import CELLS, SyntheticImages, glyphs

CHANCE = 0.1


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.short = nn.Conv2d(before, after, 1, stride, bias=False) if stride > 1 else None

    def forward(self, x: Any) -> Any:
        kept = x if self.short is None else self.short(x)
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(kept + self.norms[1](self.second(y)))


def resnet10(width: int) -> nn.Module:
    """One basic block a stage, and a stem for small images."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Block(width, width, 1),
        *(Block(width << stage, width << (stage + 1), 2) for stage in range(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width << 3, 10),
    )


def floats(images: Any) -> Any:
    return (images.float() / 255 - 0.5) / 0.25


def accuracy_after(
    model: nn.Module, train: Any, test: Any, *, epochs: int, rate: float, batch: int = 32
) -> float:
    shuffling = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True)
    steps = epochs * -(-len(train) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1)
    for _ in range(epochs):
        for chosen in torch.randperm(len(train), generator=shuffling).split(batch):
            output = model(floats(train.images[chosen]))
            loss = functional.cross_entropy(output, train.labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = [
            (model(floats(images)).argmax(1) == labels).float()
            for images, labels in zip(test.images.split(250), test.labels.split(250), strict=True)
        ]
    return float(torch.cat(right).mean())


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine take ten times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def checksum(one: SyntheticImages) -> str:
    return hashlib.sha256(bytes(one.images.flatten().tolist())).hexdigest()[:16]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"count": 300}, "6cf74169ffafc50d"),
        ({"count": 300, "train": False}, "251859efd19a2e64"),
        ({"count": 100, "seed": 1, "classes": 100}, "36fde513c1adf95b"),
        ({"count": 7, "size": 75}, "ec7adceff702a480"),
    ],
)
def test_the_pictures_are_these_for_ever(options: dict[str, Any], expected: str) -> None:
    assert checksum(SyntheticImages(**options)) == expected


def test_a_longer_set_begins_with_the_shorter_one() -> None:
    short, long = SyntheticImages(count=300), SyntheticImages(count=700)
    assert torch.equal(short.images, long.images[:300])
    assert torch.equal(short.labels, long.labels[:300])


def test_no_image_of_the_test_set_is_in_the_training_set() -> None:
    train, test = (SyntheticImages(count=2000, train=train) for train in (True, False))
    both = torch.cat([train.images, test.images]).flatten(1)
    assert both.unique(dim=0).shape[0] == 4000


def test_seeds_give_other_pictures_and_other_glyphs() -> None:
    assert checksum(SyntheticImages(count=10)) != checksum(SyntheticImages(count=10, seed=1))
    assert glyphs(10) != glyphs(10, seed=1)


def test_it_is_a_data_set() -> None:
    made = SyntheticImages(count=25, classes=4, size=20)
    assert len(made) == len(list(made)) == 25
    assert len(made.classes) == 4
    image, label = made[5]
    assert image.shape == (3, 20, 20)
    assert image.dtype == torch.uint8
    assert (type(label), label) == (int, 1)
    images, labels = next(iter(torch.utils.data.DataLoader(made, batch_size=8)))
    assert torch.equal(images, made.images[:8])
    assert labels.tolist() == made.labels[:8].tolist()


def test_every_class_comes_as_often_as_the_others() -> None:
    assert torch.bincount(SyntheticImages(count=120, classes=12).labels).tolist() == [10] * 12


@pytest.mark.parametrize("classes", [2, 10, 256])
def test_glyphs_differ_and_are_the_same_left_and_right(classes: int) -> None:
    masks = glyphs(classes)
    assert len(set(masks)) == classes
    for mask in masks:
        rows = [(mask >> (CELLS * row)) & 31 for row in range(CELLS)]
        assert all(f"{row:05b}" == f"{row:05b}"[::-1] for row in rows)


def test_ten_glyphs_differ_in_many_cells() -> None:
    masks = glyphs(10)
    distances = [(a ^ b).bit_count() for a in masks for b in masks if a != b]
    assert min(distances) >= 9


@pytest.mark.parametrize("wrong", [{"classes": 1}, {"classes": 257}, {"size": 8}, {"count": 0}])
def test_what_cannot_be_made_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SyntheticImages(**wrong)


def test_shuffled_labels_leave_the_images_and_the_number_of_each_class() -> None:
    plain = SyntheticImages(count=500)
    shuffled = SyntheticImages(count=500, shuffle_labels=True)
    assert torch.equal(plain.images, shuffled.images)
    assert torch.equal(plain.labels.bincount(), shuffled.labels.bincount())
    assert float((plain.labels == shuffled.labels).float().mean()) < 2 * CHANCE


@pytest.mark.usefixtures("_one_thread")
def test_a_small_resnet_learns_it_in_two_epochs() -> None:
    torch.manual_seed(0)
    train, test = SyntheticImages(count=2000), SyntheticImages(count=1000, train=False)
    assert accuracy_after(resnet10(8), train, test, epochs=2, rate=0.1) > 0.9


@pytest.mark.usefixtures("_one_thread")
def test_nothing_is_learned_from_shuffled_labels() -> None:
    torch.manual_seed(0)
    train = SyntheticImages(count=2000, shuffle_labels=True)
    test = SyntheticImages(count=1000, train=False)
    assert accuracy_after(resnet10(8), train, test, epochs=2, rate=0.1) < 2 * CHANCE


@pytest.mark.usefixtures("_one_thread")
def test_a_linear_model_learns_little() -> None:
    torch.manual_seed(0)
    train, test = SyntheticImages(count=4000), SyntheticImages(count=1000, train=False)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    assert accuracy_after(linear, train, test, epochs=5, rate=0.002) < 0.4


def test_numbers_that_are_not_whole_are_named() -> None:
    with pytest.raises(TypeError, match=r"count is 3\.5; it is a whole number"):
        SyntheticImages(count=3.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seed is 'a'; it is a whole number"):
        SyntheticImages(count=4, seed="a")  # type: ignore[arg-type]
    assert repr(SyntheticImages(count=4)) == "SyntheticImages(4 images of 3x32x32, 10 classes)"
