"""A backward pass whose losses weigh more or less than they say: scaled, or a part of a batch."""

from __future__ import annotations

from typing import Any


def weighted(torch: Any, tensors: Any, gradients: Any, by: float) -> tuple[Any, Any] | None:
    """What `torch.autograd.backward` is to start from; None where torch has to say what is wrong.

    A loss that starts from nothing starts from one.
    """
    outputs = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    single = gradients is None or isinstance(gradients, torch.Tensor)
    given = [gradients] if single else list(gradients)
    given += [None] * (len(outputs) - len(given) if gradients is None else 0)
    if len(given) != len(outputs) or not all(isinstance(one, torch.Tensor) for one in outputs):
        return None
    starts = []
    for output, gradient in zip(outputs, given, strict=True):
        if gradient is not None:
            starts.append(gradient * by)
        elif output.numel() == 1 and output.requires_grad:
            starts.append(torch.full_like(output, by))
        else:
            return None
    return outputs, starts
