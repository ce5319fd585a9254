"""Known ways to make training faster or smaller, each applied from outside the script.

An optimization is a module whose docstring is its page in the docs. In the parent process it says
from the baseline's record whether it applies (`refusal`), how much it could win (`promise`) and
with which settings to try it (`candidates`); in the training process `install` registers it at
the moments it needs. Importing one imports nothing but the standard library.

NUMERICS: `identical` (the same arithmetic), `close` (the same expectation, other rounding or other
random numbers), `changes` (what is learned may differ; never used unless allowed).
"""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import TYPE_CHECKING, Any, Protocol

from hotlap.errors import UsageError
from hotlap.optimizations import (
    activation_checkpointing,
    allocator,
    batch_size,
    channels_last,
    compile,
    concurrent_fetch,
    cudnn_benchmark,
    device_input,
    device_prefetch,
    exchange_bf16,
    foreach_optimizer,
    fused_optimizer,
    gradient_accumulation,
    gradient_views,
    loader_prefetch,
    loader_workers,
    memory_budget,
    non_blocking_copy,
    persistent_workers,
    pinned_memory,
    precision_bf16,
    precision_fp16,
    sample_cache,
    tf32,
    threads,
    uint8_transfer,
    zero_grad_none,
)

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict


class Optimization(Protocol):
    __doc__: str | None
    NAME: str
    NUMERICS: str
    CONFLICTS: tuple[str, ...]
    NEEDS: tuple[str, ...]
    # name -> int (from 1 on, or from its LEAST, up to its UP_TO), or the words it may be; those in
    # REQUIRED must be said in a recipe: without them the name alone would not say what it does.
    SETTINGS: dict[str, Any]

    def refusal(self, record: Record) -> str | None: ...

    def promise(self, record: Record, verdict: Verdict) -> float: ...

    def candidates(self, record: Record) -> list[dict[str, Any]]: ...

    def by_hand(self, settings: dict[str, Any]) -> str: ...

    def install(self, training: Training, settings: dict[str, Any]) -> None: ...


OPTIMIZATIONS: tuple[Optimization, ...] = (  # in the order they are applied: the innermost first
    allocator,
    threads,
    tf32,
    cudnn_benchmark,
    batch_size,
    gradient_accumulation,
    concurrent_fetch,
    sample_cache,
    loader_workers,
    persistent_workers,
    loader_prefetch,
    pinned_memory,
    non_blocking_copy,
    device_prefetch,
    uint8_transfer,
    device_input,
    fused_optimizer,
    foreach_optimizer,
    zero_grad_none,
    gradient_views,
    exchange_bf16,
    activation_checkpointing,
    memory_budget,
    compile,
    channels_last,
    precision_bf16,
    precision_fp16,
)

ANY_NUMBER = 1_000_000  # for settings that are whole numbers and have no UP_TO

# Files with optimizations of one's own, to try them without changing hotlap (see CONTRIBUTING).
FILES_VARIABLE = "HOTLAP_OPTIMIZATIONS"


@functools.lru_cache(maxsize=1)
def known() -> tuple[Optimization, ...]:
    """hotlap's own, and those in the files the environment names."""
    files = os.environ.get(FILES_VARIABLE, "")
    return OPTIMIZATIONS + tuple(_load(path) for path in files.split(os.pathsep) if path)


def _load(path: str) -> Any:
    name = "hotlap_optimization_" + os.path.splitext(os.path.basename(path))[0]
    spec: Any = importlib.util.spec_from_file_location(name, path)
    if spec is None or not os.path.isfile(path):
        raise UsageError(f"{FILES_VARIABLE} names {path}, which is no Python file. Check the path.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(name: str) -> Optimization:
    found = next((one for one in known() if name == one.NAME), None)
    if found is None:
        raise UsageError(f"{name} is no optimization.{near(name)}")
    return found


def near(name: str) -> str:
    """What may have been meant."""
    import difflib

    names = [one.NAME for one in known()]
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]}?" if close else f" There are: {', '.join(names)}."


def bounds(one: Optimization, setting: str) -> tuple[int, int]:
    """The least and the most a whole number may be: beyond it, torch fails without a word on it."""
    least = getattr(one, "LEAST", {}).get(setting, 1)
    return least, getattr(one, "UP_TO", {}).get(setting, ANY_NUMBER)


def environment(changes: dict[str, dict[str, Any]], plain: dict[str, str]) -> dict[str, str]:
    """The variables the command is to start with."""
    made: dict[str, str] = {}
    for one in known():
        variables = getattr(one, "environment", None)
        if one.NAME in changes and variables is not None:
            made.update(variables(changes[one.NAME], {**plain, **made}))
    return made
