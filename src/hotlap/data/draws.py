"""Random numbers that follow from their names: the same on every machine, in every version.

A draw depends on its seed and its number alone, never on what was drawn before. So image 7 is the
same whether images 0 to 6 were made or not, in any process and in any order. Torch's generators
promise the same numbers for one version of torch only; these are a few integer operations. They
are good enough to make pictures, and no good for secrets.
"""

from __future__ import annotations

from typing import Any

WORD = 0xFFFFFFFF
# Odd and below 2**31: a product with a 32-bit word fits int64, so nothing overflows in a tensor.
FIRST, SECOND, STEP = 0x7FEB352D, 0x46CA68B1, 0x1E3779B9


def mixed(word: Any) -> Any:
    """Another 32-bit word for each, of an int or an int64 tensor; different ones stay different."""
    word = word & WORD
    word = ((word ^ (word >> 16)) * FIRST) & WORD
    word = ((word ^ (word >> 15)) * SECOND) & WORD
    return word ^ (word >> 16)


def word(seed: Any, *names: Any) -> Any:
    """32 random bits for a seed and the numbers that name the draw; ints and int64 tensors."""
    drawn = mixed(mixed(seed >> 32) + (seed & WORD) + STEP)  # both halves of a long seed count
    for name in names:
        drawn = mixed(drawn + ((name + 1) & WORD) * STEP)
    return drawn


def below(bound: Any, drawn: Any) -> Any:
    """A drawn word as a number from 0 to bound - 1, for bounds up to 2**31."""
    return (drawn * bound) >> 32
