"""Labelled images in memory: one at a time, as their transforms make them of a whole batch."""

import pytest
import torch

from hotlap.data import Labelled
from hotlap.data.recognised import NotRecognised, recognise
from hotlap.data.transforms import Crop, Flip, Normalize

IMAGES = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8)
LABELS = torch.arange(6)


def test_a_sample_is_an_image_through_the_transform_and_its_label():
    data = Labelled(IMAGES, LABELS, [Crop(8, padding=2), Flip(), Normalize(0.5, 0.2)])
    assert len(data) == 6
    torch.manual_seed(3)
    image, label = data[4]
    torch.manual_seed(3)
    assert torch.equal(image, data.transform(IMAGES[4:5])[0])
    assert label == 4
    assert isinstance(label, int)


def test_without_a_transform_it_is_the_image():
    assert torch.equal(Labelled(IMAGES, LABELS)[1][0], IMAGES[1])


def test_images_and_labels_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="6 images, but 5 labels"):
        Labelled(IMAGES, LABELS[:5])


def test_it_is_recognised_and_its_random_numbers_are_left_alone():
    data = Labelled(IMAGES, LABELS, [Crop(8, padding=2), Flip()])
    torch.manual_seed(7)
    before = torch.rand(3)
    torch.manual_seed(7)
    found = recognise(data)
    assert torch.equal(torch.rand(3), before)
    assert torch.equal(found.images, IMAGES)
    assert [type(one).__name__ for one in found.transform.transforms] == ["Crop", "Flip"]


def test_images_that_are_no_bytes_are_not_recognised():
    with pytest.raises(NotRecognised, match=r"its images are torch\.float32"):
        recognise(Labelled(IMAGES.float(), LABELS))
