"""Images out of a cache show what they showed before."""

import io

import pytest
from PIL import Image, ImageOps

from hotlap.data.packing import pack, unpack

PIXELS = bytes([0, 1, 2, 3] * 4)


def palette(colours=bytes(range(256)) * 3, mode="RGB"):
    image = Image.frombytes("P", (4, 4), PIXELS)
    image.putpalette(colours, mode)
    return image


def with_transparency(value):
    image = palette()
    image.info["transparency"] = value
    return image


def from_file(image, **options):
    file = io.BytesIO()
    image.save(file, "PNG", **options)
    return Image.open(file)


def turned():
    image = Image.linear_gradient("L").resize((8, 4)).convert("RGB")
    exif = image.getexif()
    exif[0x0112] = 6
    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif)
    return Image.open(file)


IMAGES = {
    "one transparent colour": lambda: with_transparency(3),
    "an alpha for each colour": lambda: with_transparency(bytes([0, 10, 20, 30])),
    "a file with a transparent colour": lambda: from_file(palette(), transparency=1),
    "a palette with alpha": lambda: palette(bytes(range(256)) * 4, "RGBA"),
    "a plain palette": palette,
    "grey with a transparent shade": lambda: from_file(Image.new("L", (3, 3), 7), transparency=7),
    "a turned photograph": turned,
}


@pytest.mark.parametrize("make", IMAGES.values(), ids=IMAGES)
def test_colours_alpha_and_orientation_are_the_same(make):
    found, image = unpack(pack(make())), make()
    assert pack(found) == pack(image)
    assert found.convert("RGBA").tobytes() == image.convert("RGBA").tobytes()
    assert ImageOps.exif_transpose(found).size == ImageOps.exif_transpose(image).size


def test_a_palette_is_the_same_again_after_it_was_used():
    image = with_transparency(3)
    image.convert("RGBA")
    assert unpack(pack(image)).convert("RGBA").tobytes() == image.convert("RGBA").tobytes()


def test_the_colour_profile_stays():
    image = Image.new("RGB", (2, 2))
    image.info.update(icc_profile=b"profile", dpi=(72, 72))
    assert unpack(pack(image)).info == {"icc_profile": b"profile"}
