"""What optimizations that change batches ask of a training loader before it is made."""

from __future__ import annotations

from typing import Any

from hotlap.probes import batches


def unusual_batches(torch: Any, arguments: dict[str, Any]) -> str | None:
    """Why its batches are not torch's own collation of samples; None where they are."""
    if arguments.get("collate_fn") not in (None, torch.utils.data.default_collate):
        return "the loader collates in its own way"
    return single_samples(arguments)


def single_samples(arguments: dict[str, Any]) -> str | None:
    if arguments.get("batch_size", 1) is None and arguments.get("batch_sampler") is None:
        return "the loader hands out samples, not batches"
    return None


def shuffling(torch: Any, arguments: dict[str, Any]) -> bool:
    """Whether a loader of these arguments draws its samples in an order of its own."""
    given = arguments.get("sampler")
    if arguments.get("batch_sampler") is not None:
        given = batches.innermost(arguments["batch_sampler"])
        given = getattr(given, "sampler", given)
    if given is None:
        return bool(arguments.get("shuffle"))
    in_turn = isinstance(given, torch.utils.data.SequentialSampler)
    return not in_turn and getattr(given, "shuffle", True) is not False


def in_short(problem: Exception) -> str:
    """The first line of what went wrong, or its kind where nothing is said."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]
