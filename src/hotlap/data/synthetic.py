"""Pictures made from a seed: a data set that is always there, and the same everywhere.

Each class is a glyph of 5 by 5 cells, the same left and right, so flipping a picture keeps its
class. An image shows the glyph of its class somewhere, in some size, in a colour brighter or darker
than what is behind it: a gradient, patches of other colours, and noise over it all. No pixel tells
the class, so a linear model learns little; a small convolutional network learns it in two epochs.

Everything is integer arithmetic, and image i depends on the seed, the number of classes and i
alone: a longer set begins with the shorter one. Train and test images are made from words that
no image of the other has.
"""

from __future__ import annotations

from typing import Any

import torch

from hotlap.data import draws

CELLS = 5  # a glyph has CELLS x CELLS of them
MOST_CLASSES, LEAST_SIZE = 256, 16
CHUNK_PIXELS = 1 << 18  # worked on at once: they stay in the cores' caches
PATCHES = 3
NOISE = 24  # the largest change of a value, up or down
CANDIDATES = 4096  # glyphs that are looked at to find the ones least alike

# What a draw is for. A number stands for one thing for ever: others would be other pictures.
GLYPHS, IMAGES = range(2)
SIDE, ROW, COLUMN, SIGN, GROUND, CONTRAST, SLOPE, PIXELS, PATCH, LABELS = range(10)


class SyntheticImages:
    """Labelled uint8 images, held in memory: `images` (N, 3, size, size) and `labels` (N).

    Every class comes as often as the others, in turn. With `shuffle_labels` the labels are dealt
    out at random: whatever then does better than chance on the test set has looked where it must
    not.
    """

    def __init__(
        self,
        *,
        count: int = 10_000,
        classes: int = 10,
        size: int = 32,
        seed: int = 0,
        train: bool = True,
        shuffle_labels: bool = False,
    ) -> None:
        numbers = {"count": count, "classes": classes, "size": size, "seed": seed}
        for name, value in numbers.items():
            if not hasattr(value, "__index__"):
                raise TypeError(f"{name} is {value!r}; it is a whole number")
        if not 2 <= classes <= MOST_CLASSES:
            raise ValueError(f"classes is {classes}; it can be 2 to {MOST_CLASSES}")
        if size < LEAST_SIZE:
            raise ValueError(f"size is {size}; a glyph can be told from {LEAST_SIZE} on")
        if not 1 <= count <= 1 << 31:
            raise ValueError(f"count is {count}; it can be 1 to 2**31")
        self.classes = tuple(f"glyph-{number}" for number in range(classes))
        shown = torch.arange(count) % classes
        # Training takes every other word, testing those between; mixing keeps them different.
        words = draws.mixed(
            2 * torch.arange(count) + (0 if train else 1) + draws.word(seed, IMAGES)
        )
        masks = torch.tensor(glyphs(classes, seed=seed))[shown]
        self.images = torch.empty(count, 3, size, size, dtype=torch.uint8)
        step = max(1, CHUNK_PIXELS // (size * size))
        for start in range(0, count, step):
            part = slice(start, start + step)
            self.images[part] = _drawn(words[part], masks[part], size)
        self.labels = shown
        if shuffle_labels:
            self.labels = shown[draws.word(words, LABELS).argsort(stable=True)]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.images.shape[1:]))
        return f"SyntheticImages({len(self):,} images of {shape}, {len(self.classes)} classes)"

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.images[index], int(self.labels[index])


def glyphs(classes: int, *, seed: int = 0) -> list[int]:
    """A mask of 25 bits for each class, chosen one by one to be unlike those before.

    All of them reach to all four sides: else one could be another one, moved.
    """
    drawn = (draws.word(seed, GLYPHS, number) for number in range(CANDIDATES))
    candidates = list(dict.fromkeys(mask for mask in map(_symmetric, drawn) if _is_full(mask)))
    chosen = [candidates[0]]
    distances = [(mask ^ chosen[0]).bit_count() for mask in candidates]
    while len(chosen) < classes:
        furthest = max(range(len(candidates)), key=distances.__getitem__)  # the first such
        chosen.append(candidates[furthest])
        for at, mask in enumerate(candidates):
            distances[at] = min(distances[at], (mask ^ chosen[-1]).bit_count())
    return chosen


def _symmetric(bits: int) -> int:
    """Three columns of the word's bits, and the first two of them mirrored."""
    mask = 0
    for row in range(CELLS):
        three = (bits >> (3 * row)) & 7
        mask |= (three | (three & 2) << 2 | (three & 1) << 4) << (CELLS * row)
    return mask


def _is_full(mask: int) -> bool:
    top, left = 0b11111, 0b00001_00001_00001_00001_00001
    sides = mask & top and mask & (top << 20) and mask & left  # what is left is right
    return bool(sides) and 8 <= mask.bit_count() <= 17


def _drawn(words: Any, masks: Any, size: int) -> Any:
    """The images of some words, uint8."""

    def below(bound: Any, *names: int) -> Any:
        return draws.below(bound, draws.word(words, *names))

    def colours(lowest: int, bound: int, purpose: int, *more: int) -> Any:
        three = [lowest + below(bound, purpose, *more, channel) for channel in range(3)]
        return torch.stack(three, 1)[:, :, None, None].to(torch.int16)

    along = torch.arange(size, dtype=torch.int16)
    rows, columns = along[None, :, None], along[None, None, :]
    ground = colours(72, 112, GROUND)
    slopes = [colours(-48, 97, SLOPE, axis).to(torch.int32) for axis in range(2)]
    tilt = (slopes[0] * rows[:, None] + slopes[1] * columns[:, None]) // size
    canvas = ground + tilt.to(torch.int16)

    for number in range(PATCHES):
        top, left, high, wide = (
            below(bound, PATCH, number, at).to(torch.int16)[:, None, None]
            for at, bound in enumerate((size, size, size // 3, size // 3))
        )
        inside = (rows >= top) & (rows <= top + high) & (columns >= left) & (columns <= left + wide)
        canvas = torch.where(inside[:, None], colours(32, 192, PATCH, number, 4), canvas)

    side = size * 9 // 16 + below(size * 3 // 8, SIDE)
    across = torch.arange(size)
    v = (across - below(size - side + 1, ROW)[:, None]) * CELLS // side[:, None]
    u = (across - below(size - side + 1, COLUMN)[:, None]) * CELLS // side[:, None]
    inside = ((v >= 0) & (v < CELLS))[:, :, None] & ((u >= 0) & (u < CELLS))[:, None, :]
    cell = (v[:, :, None] * CELLS + u[:, None, :]).clamp(0, CELLS * CELLS - 1)
    filled = inside & ((masks[:, None, None] >> cell) & 1 == 1)
    sign = (2 * below(2, SIGN) - 1).to(torch.int16)[:, None, None, None]
    canvas = torch.where(filled[:, None], ground + sign * colours(56, 64, CONTRAST), canvas)
    return (canvas + _noise(words, size)).clamp(0, 255).to(torch.uint8)


def _noise(words: Any, size: int) -> Any:
    """Four values of each word, cut out by shifts: a view as bytes would depend on the machine."""
    values = 3 * size * size
    drawn = draws.word(words, PIXELS)[:, None] + torch.arange(-(-values // 4)) * draws.STEP
    drawn = draws.mixed(drawn).to(torch.int64)
    parts = torch.stack([(drawn >> shift) & 0xFF for shift in (0, 8, 16, 24)], -1).to(torch.int16)
    noise = ((parts * (2 * NOISE + 1)) >> 8) - NOISE
    return noise.flatten(1)[:, :values].reshape(-1, 3, size, size)
