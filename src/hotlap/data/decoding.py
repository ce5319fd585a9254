"""The bytes of an image file as a uint8 tensor (3, height, width), by the fastest decoder there is.

For JPEGs that is simplejpeg, then PyTurboJPEG, if one of them is installed; Pillow does the rest.
A fast decoder is only a short cut: what it refuses, Pillow judges. So the same files are read
whatever is installed, and a truncated one is an error with all of them.
"""

from __future__ import annotations

import functools
import importlib
import io
from collections.abc import Callable
from typing import Any

import torch

from hotlap.errors import UsageError

SIXTEEN = (("I", "PNG"), ("I", "PPM"))  # what Pillow opens as 32 bits and is of 16
JPEG, JPEG_ENDS = b"\xff\xd8", b"\xff\xd9"


class ImageError(UsageError):
    """An image, or a folder of images, that cannot be read; the message names it."""


def decoded(data: bytes, name: str) -> Any:
    """RGB, whatever the file holds; `name` is what an error calls it."""
    if not data:
        raise ImageError(f"{name} is empty. Delete it, or fetch it again.")
    fast = fast_decoder() if data.startswith(JPEG) and _components(data) in (1, 3) else None
    if fast is not None:
        try:
            return _channels_first(fast(data))
        except Exception:  # a kind of JPEG it does not know, or a broken one: Pillow's word counts
            pass
    return _by_pillow(data, name)


def _components(data: bytes) -> int:
    """1 is grey, 3 is colour, 4 is for printers, which decoders turn into RGB each in its way."""
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):  # the frame's header
            return data[at + 9]
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0


@functools.cache
def fast_decoder() -> Callable[[bytes], Any] | None:
    """Bytes of a JPEG to a tensor (height, width, 3); None where no such package is installed."""
    for found in (_simplejpeg, _turbojpeg):
        try:
            return found()
        except Exception:  # not installed, or without the library it needs
            continue
    return None


def _simplejpeg() -> Callable[[bytes], Any]:
    decode = importlib.import_module("simplejpeg").decode_jpeg
    return lambda data: torch.from_numpy(decode(data, "RGB"))


def _turbojpeg() -> Callable[[bytes], Any]:
    module = importlib.import_module("turbojpeg")
    decode, rgb = module.TurboJPEG().decode, module.TJPF_RGB

    def decoding(data: bytes) -> Any:
        if not data.endswith(JPEG_ENDS):  # it would fill up with grey, and only warn
            raise ValueError("no end of image")
        return torch.from_numpy(decode(data, pixel_format=rgb))

    return decoding


def _by_pillow(data: bytes, name: str) -> Any:
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError as problem:
        raise ImageError(
            f"{name} cannot be decoded without Pillow. Install it: pip install pillow"
        ) from problem
    try:
        with pillow.open(io.BytesIO(data)) as image:
            if image.mode.startswith(("I", "F")):
                return _from_many_bits(image, name)
            if "transparency" in image.info:  # straight to RGB, Pillow warns
                image = image.convert("RGBA")
            rgb = image.convert("RGB")
    except (MemoryError, ImageError):
        raise
    except Exception as problem:  # Pillow's formats raise what they like: OSError, SyntaxError, ...
        raise ImageError(
            f"{name} cannot be decoded: {_reason(problem)}. Delete it, or fetch it again."
        ) from problem
    pixels = torch.frombuffer(bytearray(rgb.tobytes()), dtype=torch.uint8)
    return _channels_first(pixels.view(rgb.height, rgb.width, 3))


def _from_many_bits(image: Any, name: str) -> Any:
    """Grey of 16 bits, of which the upper 8 are taken; Pillow's own way to RGB cuts off at 255."""
    if not image.mode.startswith("I;16") and (image.mode, image.format) not in SIXTEEN:
        kind = "floats" if image.mode == "F" else "32-bit numbers"
        raise ImageError(f"{name} holds {kind}, of no known range. Save it with 8 or 16 bits.")
    values = torch.frombuffer(bytearray(image.convert("I").tobytes()), dtype=torch.int32)
    grey = (values.view(image.height, image.width) >> 8).clamp(0, 255).to(torch.uint8)
    return grey.expand(3, -1, -1).contiguous()


def _channels_first(pixels: Any) -> Any:
    return pixels.permute(2, 0, 1).contiguous()


def _reason(problem: Exception) -> str:
    if type(problem).__name__ == "UnidentifiedImageError":
        return "it is no image"
    return str(problem) or type(problem).__name__
