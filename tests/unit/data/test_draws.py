from __future__ import annotations

import torch

from hotlap.data import draws


def test_different_words_stay_different() -> None:
    words = draws.mixed(torch.arange(1 << 16))
    assert words.unique().numel() == 1 << 16
    assert int(words.min()) >= 0
    assert int(words.max()) <= draws.WORD


def test_a_tensor_draws_what_its_numbers_draw() -> None:
    numbers = torch.arange(100)
    assert draws.word(7, numbers).tolist() == [draws.word(7, number) for number in range(100)]
    seeds = torch.tensor([3, 5, draws.WORD])
    assert draws.word(seeds, 1).tolist() == [draws.word(seed, 1) for seed in seeds.tolist()]


def test_both_halves_of_a_seed_count() -> None:
    seeds = (0, 1, 1 << 32, (1 << 32) + 1, -1)
    assert len({draws.word(seed, 0) for seed in seeds}) == len(seeds)


def test_the_order_of_names_counts() -> None:
    assert draws.word(0, 1, 2) != draws.word(0, 2, 1)


def test_draws_are_spread_evenly() -> None:
    drawn = draws.below(10, draws.word(0, torch.arange(100_000)))
    counts = torch.bincount(drawn)
    assert counts.numel() == 10
    assert int(counts.min()) > 9_500
    assert int(counts.max()) < 10_500


def test_the_words_are_these_for_ever() -> None:
    drawn = [draws.word(0, number) for number in range(3)]
    assert drawn == [2305039534, 2583496530, 2702559235]
