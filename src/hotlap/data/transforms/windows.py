"""Windows of images, each at a place of its own, cut out in one pass over memory."""

from __future__ import annotations

import torch


def cut(
    images: torch.Tensor,
    picks: torch.Tensor,
    tops: torch.Tensor,
    lefts: torch.Tensor,
    *,
    size: tuple[int, int],
) -> torch.Tensor:
    """Of each picked image the window that begins at (top, left), in memory of its own.

    Images that are channels-last in memory give a batch that is.
    """
    if memory_format(images) == torch.contiguous_format:
        images = images.contiguous()
    if images.device.type == "cpu":
        return _by_rows(images, picks, tops, lefts, size)
    return _by_index(images, picks, tops, lefts, size)


def _by_index(
    images: torch.Tensor,
    picks: torch.Tensor,
    tops: torch.Tensor,
    lefts: torch.Tensor,
    size: tuple[int, int],
) -> torch.Tensor:
    """One kernel: all windows of all images are a view, and three indices choose from it."""
    count, channels, height, width = images.shape
    of_image, of_channel, of_row, of_pixel = images.stride()
    places = (count, height - size[0] + 1, width - size[1] + 1)
    steps = (of_image, of_row, of_pixel)
    if images.is_contiguous():
        view = images.as_strided((*places, channels, *size), (*steps, of_channel, of_row, of_pixel))
        return view[picks, tops, lefts]
    view = images.as_strided((*places, *size, channels), (*steps, of_row, of_pixel, of_channel))
    return view[picks, tops, lefts].permute(0, 3, 1, 2)


def _by_rows(
    images: torch.Tensor,
    picks: torch.Tensor,
    tops: torch.Tensor,
    lefts: torch.Tensor,
    size: tuple[int, int],
) -> torch.Tensor:
    """A window is some runs of neighbouring bytes, and the CPU is fastest at copying those.

    The view has a run at every byte; selecting rows from it copies them. Four times as fast as
    indexing, five to eight times as fast as slicing images one by one.
    """
    channels, height, width = images.shape[1:]
    down = torch.arange(size[0]) * width
    if images.is_contiguous():
        run, per_pixel = size[1], 1
        within = (torch.arange(channels)[:, None] * (height * width) + down).flatten()
    else:
        run, per_pixel = size[1] * channels, channels
        within = down * channels
    runs = images.as_strided((max(0, images.numel() - run + 1), run), (1, 1))
    first = picks * (channels * height * width) + (tops * width + lefts) * per_pixel
    batch = runs.index_select(0, (first[:, None] + within).flatten())
    if images.is_contiguous():
        return batch.view(len(picks), channels, *size)
    return batch.view(len(picks), *size, channels).permute(0, 3, 1, 2)


def pick(images: torch.Tensor, picks: torch.Tensor) -> torch.Tensor:
    """The picked images, whole, in memory of their own."""
    rows, _, back = in_memory_order(images)
    return rows.index_select(0, picks).permute(back)


def in_memory_order(images: torch.Tensor) -> tuple[torch.Tensor, int, tuple[int, int, int, int]]:
    """A view with the axes as they lie in memory, which axis is the width, and the way back."""
    if memory_format(images) == torch.channels_last:
        return images.permute(0, 2, 3, 1), 2, (0, 3, 1, 2)
    return images, 3, (0, 1, 2, 3)


def memory_format(images: torch.Tensor) -> torch.memory_format:
    """Channels-last only where it differs from the usual one."""
    if images.is_contiguous() or not images.is_contiguous(memory_format=torch.channels_last):
        return torch.contiguous_format
    return torch.channels_last
