"""The compiler keeps a part of the activations and computes the rest again.

## What it does
Gives torch's compiler a budget for what a compiled forward pass may keep until the backward pass:
`percent` of what it would keep by itself. What is over the budget is computed again, the cheapest
first: activation functions and norms before convolutions and matrix products. It holds for what the
script compiles, and for `compile`, which stands beside it in a recipe where the script compiles
nothing.

What would not be the same the second time is always kept. By itself torch, up to version 2.13 at
least, computes such things again, and what is learned is wrong without a word: random numbers of
dropout or of noise drawn in place (pytorch#190758), what operations give that are not torch's own,
and what was read of a buffer or an input that the forward pass itself overwrites, as a balancing
bias or a memory of the segment before (pytorch#197039).

## Why it helps
Of most models the activations take the larger part of the memory, and much of them costs little to
compute again where the compiler fuses that with the operations that ask for it. On an H200, at
50 %, the peak of a step fell from 4.9 to 3.3 GB for ResNet-18 and from 10.1 to 7.3 GB for a GPT of
12 layers, there at 25 % to 5.1 GB; steps took 1.09, 1.07 and 1.16 times as long as compiled ones,
which is 0.59 times as long as plain ones for the ResNet. Checkpointing: 2.7 and 1.7 GB, 1.31 and
1.24 times as long as plain ones. On a CPU with one thread, at 50 %: from 374 to 247 MB for
ResNet-18 and from 232 to 143 MB for a small GPT, at 1.08 and 1.06 times the compiled steps
(bench/memory_budget.py).

## When it does not help
It is never faster by itself. It is tried with `--goal memory`, or where it is named. The budget is
of what is kept, not of the peak: what was not kept may all be there at once when it is computed
again, and then 10 % takes more than 50 % (the ResNet on an H200: 4.4 GB; pytorch#197838). Several
are measured. Checkpointing takes less memory and more time. Parts that are not compiled keep what
they kept, and so do backends that do not split a graph as torch's own does. Compiling takes memory
of the process itself: on a CPU a small model has nothing to gain.

A batch or a buffer that the script writes to between the forward and the backward pass is what the
backward pass computes from: torch ends the training ("modified by an inplace operation"), unless it
is written to behind torch's back, as through a NumPy array that shares its memory.

## By hand
One line before the model is compiled. It draws random numbers again, and reads overwritten buffers
as they have become: look for both first.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import compile, imports, partition, reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "memory-budget"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ("activation-checkpointing",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"percent": int}
REQUIRED = ("percent",)
UP_TO = {"percent": 99}
TRIED = (50, 25, 10)
NOTHING = "nothing is compiled"
NO_GRAPH = "what is compiled has no backward pass, or one that its backend makes another way"
OWN = "the script has a budget of its own: {:.0f} %"
UNKNOWN = "the compiler of this torch has no such budget, or has it in another way"
FAILED = "torch keeps no such budget for one of its graphs: {}: {}"


def refusal(record: Record) -> str | None:
    return None if reading.compiles(record) else compile.refusal(record)


def needs(record: Record) -> tuple[str, ...]:
    return () if reading.compiles(record) else (compile.NAME,)


def promise(record: Record, verdict: Verdict) -> float:
    return 0.0  # of the time


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{"percent": percent} for percent in TRIED]


def by_hand(settings: dict[str, Any]) -> str:
    share = settings.get("percent", TRIED[0]) / 100
    return f"torch._functorch.config.{partition.OPTION} = {share:g}  # before it is compiled"


def install(training: Training, settings: dict[str, Any]) -> None:
    budget = _Budget(training, settings.get("percent", TRIED[0]))
    imports.after(partition.MODULE, budget.arrived)
    training.after_step(budget.look)


_given: set[float] = {partition.marked(partition.ALL)}  # what stands there is not the script's


class _Budget:
    def __init__(self, training: Training, percent: int) -> None:
        self._training = training
        self._detail = f"{percent} %"
        self._share = percent / 100
        self._config: Any = None
        self._settled = False

    def arrived(self, partitioners: Any) -> None:
        """The compiler is there; what it has compiled before stays as it is."""
        if not partition.mend(partitioners):
            self._refuse(UNKNOWN)
            return
        now = getattr(partitioners.config, partition.OPTION)
        if now not in _given:
            self._refuse(OWN.format(100 * now))
            return
        self._config = partitioners.config
        _given.add(partition.marked(self._share))
        partition.take(self._config, self._share)
        partition.listen(self._split)

    def _refuse(self, why: str) -> None:
        self._settled = True
        self._training.withdrawn(NAME, why)

    def _split(self, budget: float, problem: Exception | None) -> None:
        """A graph with a backward pass has been split, in whatever thread."""
        if budget not in _given:
            self._training.refused(NAME, OWN.format(100 * budget))
        elif budget != partition.marked(self._share):
            return  # another recipe's
        elif problem is not None:
            why = str(problem).partition("\n")[0]
            self._training.refused(NAME, FAILED.format(type(problem).__name__, why))
        else:
            self._training.applied(NAME, self._detail)
        self._settled = True

    def look(self) -> None:
        """After a step in which no graph has been split so far."""
        if self._settled:
            return
        ours = self._config is not None and self._is_there()
        if self._config is not None and not ours:
            now = getattr(self._config, partition.OPTION)
            self._training.refused(NAME, OWN.format(100 * now))
        elif ours and _counted("autograd_cache_hit"):
            self._settled = True
            self._training.applied(NAME, self._detail)
        else:
            self._training.refused(NAME, NO_GRAPH if _counted("ok") else NOTHING)

    def _is_there(self) -> bool:
        return bool(getattr(self._config, partition.OPTION) == partition.marked(self._share))


def _counted(what: str) -> bool:
    """Graphs that went through the part of torch's compiler that the budget is for."""
    utilities = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utilities, "counters", {})
    return bool(counters and counters["aot_autograd"][what])
