"""The same as torchvision's own functions, image by image, where torchvision is installed."""

import pytest
import torch

from hotlap.data.transforms import ColorJitter, Convert, Crop, Normalize, Resize

reference = pytest.importorskip("torchvision.transforms.functional")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


PICTURES = torch.randint(0, 256, (32, 3, 24, 30), dtype=torch.uint8, generator=seeded(1))


@pytest.mark.parametrize("batch", [PICTURES, PICTURES / 255], ids=["uint8", "floats"])
def test_colours_are_adjusted_as_there(batch):
    jitter = ColorJitter(0.4, 0.5, 0.6, 0.2)
    factors, order = jitter.draw(32, (3, 24, 30), seeded())
    adjust = (
        reference.adjust_brightness,
        reference.adjust_contrast,
        reference.adjust_saturation,
        reference.adjust_hue,
    )
    apart = 0.0
    for index, image in enumerate(batch):
        for operation in order[index].tolist():
            image = adjust[operation](image, float(factors[index, operation]))
        result = jitter.apply(batch, (factors, order))[index]
        apart += float(((result.float() - image.float()).abs() > 1e-5).float().mean()) / 32
    assert apart < 1e-3


@pytest.mark.parametrize("padding", [3, (1, 2), (1, 2, 3, 4)])
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_crops_are_padded_as_there(padding, mode):
    sides = padding if isinstance(padding, int) else list(padding)
    expected = reference.pad(PICTURES, sides, padding_mode=mode)
    assert torch.equal(Crop(5, padding=padding, mode=mode).pad(PICTURES), expected)


@pytest.mark.parametrize("size", [12, 40, (20, 17)])
@pytest.mark.parametrize("batch", [PICTURES, PICTURES / 255], ids=["uint8", "floats"])
def test_images_are_resized_as_there(size, batch):
    sides = size if isinstance(size, int) else list(size)
    assert torch.equal(Resize(size)(batch), reference.resize(batch, sides, antialias=True))


def test_types_and_means_are_changed_as_there():
    floats = reference.convert_image_dtype(PICTURES, torch.float32)
    assert torch.equal(Convert(torch.float32)(PICTURES), floats)
    assert torch.equal(Convert(torch.uint8)(floats), PICTURES)
    mean, std = (0.49, 0.48, 0.44), (0.2, 0.21, 0.19)
    expected = reference.normalize(floats, mean, std)
    assert torch.allclose(Normalize(mean, std)(PICTURES), expected, atol=2e-6)
