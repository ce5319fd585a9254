"""Where torch's compiler splits a graph in two: what the forward pass keeps for the backward pass.

What is not kept is computed again from what is. torch chooses by what that costs, and does not see
that some things are not the same the second time (as of 2.13): random numbers (pytorch#190758), and
what is read of an input that the forward pass itself has overwritten by then, as a buffer with a
moving average (pytorch#197039). And it drops the copy that a script makes of such an input before,
as of a queue of negatives. Gradients are wrong then, without a word. Here such things are always
kept.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

MODULE = "torch._functorch.partitioners"
OPTION, CHOOSER, GIVEN = "activation_memory_budget", "choose_saved_values_set", "memory_budget"
ALL = 1.0  # what torch would keep by itself
# The compiler's cache knows a graph by its budget, not by what is kept beside it: so that no graph
# that was made without this is taken from there, the budget is one that nobody else would write.
# It changes whenever what is kept does.
OURS = 4e-9
TORCHS_OWN = ("aten", "prim", "prims", "_c10d_functional", "fsdp")

Nodes = dict[Any, Any]  # in the order in which they were found

# What became of one graph: the budget that was asked for, and what went wrong under it.
Listener = Callable[[float, "Exception | None"], None]
_listeners: list[Listener] = []


def mend(partitioners: Any) -> bool:
    """Keeps what is not the same the second time, from now on; False where torch has it otherwise.

    Where a budget is asked for that torch fails to keep, the graph gets all that it wants.
    """
    config, plain = getattr(partitioners, "config", None), getattr(partitioners, CHOOSER, None)
    if plain is None or not hasattr(config, OPTION):
        return False
    if hasattr(plain, "__wrapped__"):
        return True  # it is there already
    if list(inspect.signature(plain).parameters)[2:] != [GIVEN]:
        return False

    @functools.wraps(plain)
    def choose(graph: Any, nodes: Any, memory_budget: float = ALL) -> list[Any]:
        budget = ALL if memory_budget == marked(ALL) else memory_budget
        problem = None
        try:
            with _ignoring_fresh_symbols(graph):
                kept = list(plain(graph, nodes, memory_budget=budget))
        except Exception as one:
            if budget == ALL:
                raise
            problem = one
            kept = list(plain(graph, nodes, memory_budget=ALL))
        for listen in _listeners:
            listen(memory_budget, problem)
        backward = _of_the_backward_pass(graph, nodes)
        overwritten = _overwritten(graph, backward)
        kept += _otherwise_again(graph, nodes, set(kept), backward, overwritten)
        return kept + _as_they_were(graph, backward, overwritten)

    setattr(partitioners, CHOOSER, choose)
    if getattr(config, OPTION) == ALL:
        take(config, ALL)
    return True


def marked(budget: float) -> float:
    """The same budget, told from everybody else's."""
    return budget - OURS


def take(config: Any, budget: float) -> None:
    """In this thread and in all others: since torch 2.13 a value is the thread's that sets it."""
    value = marked(budget)
    setattr(config, OPTION, value)
    entry: Any = getattr(config, "_config", {}).get(OPTION)
    if isinstance(getattr(entry, "user_override", None), ContextVar):
        entry.user_override = ContextVar(OPTION, default=value)


def listen(listener: Listener) -> None:
    _listeners.append(listener)


def _ignoring_fresh_symbols(graph: Any) -> contextlib.AbstractContextManager[Any]:
    """torch runs operations to tell what they cost, and stumbles over sizes that come of it."""
    for node in graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        shapes: Any = getattr(mode, "shape_env", None)
        if hasattr(shapes, "ignore_fresh_unbacked_symbols"):
            manager: contextlib.AbstractContextManager[Any] = shapes.ignore_fresh_unbacked_symbols()
            return manager
    return contextlib.nullcontext()


# What is not the same again ------------------------------------------------------------------


def _otherwise_again(
    graph: Any, nodes: Any, kept: set[Any], backward: Nodes, overwritten: Nodes
) -> Iterator[Any]:
    """Of all that the backward pass would compute again from what is kept.

    What only the backward pass draws is drawn once, and there.
    """
    asked = [given for node in backward for given in node.all_input_nodes]
    answers = (node for node in nodes.required_bw_nodes if node.op != "output")
    asked += [node for node in answers if node not in backward]
    seen = set()
    while asked:
        node = asked.pop()
        there = node in kept and node not in overwritten
        if node in seen or node in backward or there:
            continue
        seen.add(node)
        draws = _may_draw(graph, node) and not _drawn_as_before(node)
        if draws or _reads(node, overwritten):
            yield from (one for one in _parts(node) if one not in kept)
        else:
            asked += node.all_input_nodes


def _of_the_backward_pass(graph: Any, nodes: Any) -> Nodes:
    """What the forward pass has no use for: most of it comes of the gradients that are given."""
    computed = (node for node in graph.nodes if node.op not in ("placeholder", "output"))
    return dict.fromkeys(node for node in computed if not nodes.is_required_fw(node))


def _parts(node: Any) -> Iterator[Any]:
    """What can be kept: no tuple, but all that is taken from it."""
    taken = [user for user in node.users if user.target is operator.getitem]
    if not taken:
        yield node
    for one in taken:
        yield from _parts(one)


# Inputs that are overwritten -----------------------------------------------------------------


def _overwritten(graph: Any, backward: Nodes) -> Nodes:
    """Inputs that the forward pass writes to, and views of them: what is new is found there."""
    import torch

    into = (torch.ops.aten.copy_.default, torch.ops.aten.set_.source_Tensor)
    writing = (node for node in graph.nodes if node.target in into and node not in backward)
    written = (node.args[0] for node in writing)
    found = dict.fromkeys(node for node in written if node.op == "placeholder")
    found.update(dict.fromkeys(_written_after(graph)))
    for node in graph.nodes:
        if any(one in found for one in node.all_input_nodes[:1]) and _is_view(node):
            found[node] = None
    return found


def _written_after(graph: Any) -> Iterator[Any]:
    """Inputs whose new values are outputs, for what calls the graph to write them."""
    told = [node.meta.get("desc") for node in graph.nodes if node.op == "output"]
    new = [getattr(one, "mutated_input", None) for one in (told and told[0]) or ()]
    for node in graph.nodes:
        what = node.meta.get("desc") if node.op == "placeholder" else None
        if what is not None and what in new:
            yield node


def _is_view(node: Any) -> bool:
    """Of the first thing it is given."""
    import torch

    if node.target in (operator.getitem, torch.ops.aten._unsafe_view.default):
        return True
    returned = getattr(getattr(node.target, "_schema", None), "returns", ())
    return any(one.alias_info is not None and not one.alias_info.is_write for one in returned)


def _as_they_were(graph: Any, backward: Nodes, overwritten: Nodes) -> list[Any]:
    """Copies of overwritten inputs, for what reads those themselves in the backward pass.

    The script had copies, or autograd had ended it; torch takes them for needless and drops them
    (as of 2.13), as it does not look at what is written.
    """
    copies: Nodes = {}

    def as_it_was(node: Any) -> Any:
        if node not in copies:
            copies[node] = _copied(graph, node, as_it_was)
        return copies[node]

    for node in backward:
        into = node.args[0] if _is_written_to(node) else None
        for given in () if node in overwritten else node.all_input_nodes:
            if given in overwritten and given is not into:
                node.replace_input_with(given, as_it_was(given))
    return [copies[node] for node in copies if node.op == "placeholder"]


def _copied(graph: Any, node: Any, as_it_was: Callable[[Any], Any]) -> Any:
    import torch

    if node.op != "placeholder":  # a view: that of the copy
        first = node.all_input_nodes[0]
        before = as_it_was(first)
        with graph.inserting_after(node):
            return graph.node_copy(node, lambda one: before if one is first else one)
    value = node.meta["val"]
    with graph.inserting_before(next(one for one in graph.nodes if one.op != "placeholder")):
        copy = graph.call_function(torch.ops.aten.clone.default, (node,))
    with value.fake_mode:
        copy.meta["val"] = value.clone()
    return copy


def _is_written_to(node: Any) -> bool:
    return bool(getattr(node.target, "_schema", None)) and node.target._schema.is_mutable


def _reads(node: Any, overwritten: Nodes) -> bool:
    """Whether it computes something of what an input held before."""
    import torch

    made = node.meta.get("val")
    if node in overwritten or isinstance(made, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    return any(one in overwritten for one in node.all_input_nodes)


# Random numbers ------------------------------------------------------------------------------


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


def _drawn_as_before(node: Any) -> bool:
    """In a checkpoint of the script's own, for which torch sets its generators back."""
    import torch
    from torch._functorch import partitioners

    known = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return bool(known and partitioners.must_recompute(node))


def _graph(graph: Any, node: Any) -> Any:
    """The graph that an attribute of the module around this one is of, if it is of one."""
    if graph.owning_module is None or node.op != "get_attr":
        return None
    return getattr(getattr(graph.owning_module, node.target, None), "graph", None)


def _drops_nothing(node: Any) -> bool:
    """Attention with dropout that is off."""
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return "dropout_p" in names and given.get("dropout_p", 0.0) == 0.0
