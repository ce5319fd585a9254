"""The compiler keeps a part of the activations and computes the rest again.

## What it does
Gives torch's compiler a budget for what a compiled forward pass may keep until the backward pass:
`percent` of what it would keep by itself. What is over the budget is computed again, the cheapest
first: activation functions and norms before convolutions and matrix products. It holds for what the
script compiles, and for `compile`, which stands beside it in a recipe where the script compiles
nothing.

Random numbers are not drawn again. By itself torch does that up to version 2.13 at least
(pytorch#190758): where dropout, or noise drawn in place, is over the budget, the backward pass goes
through other random numbers than the forward pass, and what is learned is wrong without a word.
Here what was drawn is always kept, and so is what operations return that are not torch's own.

## Why it helps
Of most models the activations take the larger part of the memory, and much of them costs little to
compute again where the compiler fuses that with the operations that ask for it. On a CPU with one
thread, at 50 %, the peak of a step fell from 374 to 247 MB for ResNet-18 and from 232 to 143 MB for
a small GPT; steps took 1.08 and 1.06 times as long as compiled ones, 0.93 and 1.10 times as long as
plain ones. Checkpointing: 212 and 64 MB, 1.29 and 1.35 times (bench/memory_budget.py).

## When it does not help
It is never faster by itself. It is tried with `--goal memory`, or where it is named. The budget is
of what is kept, not of the peak: what was not kept may all be there at once when it is computed
again, and then 10 % takes more than 50 % (there: 344 MB; pytorch#197838). Several are measured.
Checkpointing takes less memory and more time. Parts that are not compiled keep what they kept, and
so do backends that do not split a graph as torch's own does. Compiling takes memory of the process
itself: on a CPU a small model has nothing to gain.

## By hand
One line before the model is compiled. It draws random numbers again: look for dropout first.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import compile, imports, reading

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
PARTITIONER = "torch._functorch.partitioners"
OPTION, CHOOSER = "activation_memory_budget", "choose_saved_values_set"
# The compiler's cache knows a graph by its budget, not by what is kept beside it: so that no graph
# that was made without this is taken from there, the budget is one that nobody else would write.
OURS = 1e-9
TORCHS_OWN = ("aten", "prim", "prims", "_c10d_functional", "fsdp")
NOTHING = "nothing is compiled"
OWN = "the script has a budget of its own: {:.0f} %"
UNKNOWN = "the compiler of this torch has no such budget, or has it in another way"


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
    return f"torch._functorch.config.{OPTION} = {share:g}  # before the model is compiled"


def install(training: Training, settings: dict[str, Any]) -> None:
    budget = _Budget(training, settings.get("percent", TRIED[0]))
    imports.after(PARTITIONER, budget.arrived)
    training.after_step(budget.look)


class _Budget:
    def __init__(self, training: Training, percent: int) -> None:
        self._training = training
        self._detail = f"{percent} %"
        self._value = percent / 100 + OURS
        self._config: Any = None
        self._settled = False

    def arrived(self, partitioners: Any) -> None:
        """The compiler is there, and has not compiled anything yet."""
        config, plain = getattr(partitioners, "config", None), getattr(partitioners, CHOOSER, None)
        if plain is None or not hasattr(config, OPTION):
            self._refuse(UNKNOWN)
        elif getattr(config, OPTION) != 1.0:
            self._refuse(OWN.format(100 * getattr(config, OPTION)))
        else:
            self._config = config
            setattr(config, OPTION, self._value)
            setattr(partitioners, CHOOSER, _keeping_what_was_drawn(plain))

    def _refuse(self, why: str) -> None:
        self._settled = True
        self._training.withdrawn(NAME, why)

    def look(self) -> None:
        """After a step: what trains has been compiled by then, if it is not compiled later."""
        if self._settled:
            return
        now = self._value if self._config is None else getattr(self._config, OPTION)
        if now != self._value:
            self._refuse(OWN.format(100 * now))
        elif self._config is not None and _has_compiled():
            self._settled = True
            self._training.applied(NAME, self._detail)
        else:
            self._training.refused(NAME, NOTHING)


def _has_compiled() -> bool:
    """Whether a graph has gone through the part of torch's compiler that the budget is for."""
    utilities = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utilities, "counters", {})
    return bool(counters and counters["aot_autograd"]["ok"])


# Random numbers ------------------------------------------------------------------------------


def _keeping_what_was_drawn(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What is kept for the backward pass, and beside it what would be drawn again there."""

    @functools.wraps(plain)
    def choose(graph: Any, nodes: Any, *args: Any, **kwargs: Any) -> list[Any]:
        kept = list(plain(graph, nodes, *args, **kwargs))
        return [*kept, *_drawn_again(graph, nodes, set(kept))]

    return choose


def _drawn_again(graph: Any, nodes: Any, kept: set[Any]) -> Iterator[Any]:
    """What draws, of all that the backward pass would compute again from what is kept.

    What only the backward pass draws is drawn once, and there.
    """
    backward = nodes.required_bw_nodes
    asked = [given for node in graph.nodes if node in backward for given in node.all_input_nodes]
    seen = set(kept)
    while asked:
        node = asked.pop()
        if node in seen or node in backward:
            continue
        seen.add(node)
        if nodes.is_required_fw(node) and _may_draw(graph, node):
            yield from (one for one in _parts(node) if one not in kept)
        else:
            asked += node.all_input_nodes


def _parts(node: Any) -> Iterator[Any]:
    """What can be kept: no tuple, but all that is taken from it."""
    taken = [user for user in node.users if user.target is operator.getitem]
    if not taken:
        yield node
    for one in taken:
        yield from _parts(one)


def _may_draw(graph: Any, node: Any) -> bool:
    """Whether it may give something else when it runs again."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    if hasattr(node.target, "_schema"):
        return _draws(node.target) and not _drops_nothing(node)
    # An operation on others: on one that writes into what it is given, or on graphs, which stand
    # in the module beside this one.
    inside = (_graph(graph, one) for one in node.all_input_nodes)
    return any(_draws(one) for one in node.args if hasattr(one, "_schema")) or any(
        _may_draw(inner, one) for inner in inside if inner for one in inner.nodes
    )


def _draws(operation: Any) -> bool:
    import torch

    if operation._schema.name.partition("::")[0] not in TORCHS_OWN:
        return True  # nobody can tell
    return torch.Tag.nondeterministic_seeded in operation.tags


def _graph(graph: Any, node: Any) -> Any:
    """The graph that an attribute of the module around this one is of, if it is of one."""
    named = graph.owning_module is not None and node.op == "get_attr"
    return (
        getattr(getattr(graph.owning_module, node.target, None), "graph", None) if named else None
    )


def _drops_nothing(node: Any) -> bool:
    """Attention with dropout that is off."""
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return "dropout_p" in names and given.get("dropout_p", 0.0) == 0.0
