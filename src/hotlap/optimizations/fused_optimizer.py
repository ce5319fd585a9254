"""The optimizer updates all parameters in a few kernels, each in one pass over memory.

## What it does
Makes torch's own optimizers with `fused=True`.

## Why it helps
The plain update launches several small kernels for every parameter tensor.

## When it does not help
Optimizers with a `step` of their own, and steps in which the update is a small part. Not used for
SGD together with a GradScaler: torch leaves its momentum uninitialised when the first step
overflows. Nor for Adagrad together with one, because it could not be taken back there. Nor for SGD
on a CPU with parameters of bfloat16 or float16: torch's fused update of these is wrong.

An optimizer that gets a sparse gradient, or one of complex numbers, is the plain one again from
that step on; so is one with a parameter that has gaps in memory, as a slice of a larger tensor has,
and one whose gradients or momentum are of another type than their parameters.
A gradient that lies in memory in another way than its parameter, as an expanded or a transposed one
does, is copied for the update, which walks through memory without asking. Parameters that get their
first gradient later than others, as those of layers that are unfrozen, begin with the momentum they
would have had; with `dampening` the optimizer is the plain one again there, too.

## By hand
One argument of the optimizer.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import layouts, reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "fused-optimizer"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ("foreach-optimizer",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
KINDS = ("SGD", "Adam", "AdamW", "Adagrad")
SCALED = {
    "SGD": "fused SGD with a GradScaler goes wrong when the first step overflows",
    "Adagrad": "fused Adagrad with a GradScaler could not be taken back for a sparse gradient",
}
ALREADY = "the optimizer already is fused"
DIFFERENTIABLE = "the script differentiates through the update"
SPARSE = "it has sparse gradients, which the fused update does not take"
COMPLEX = "it has complex parameters, which the fused update does not take"
GAPS = "it has parameters with gaps in memory, which the fused update would fill"
HALF = "torch's fused update of half-precision parameters is wrong on a CPU"
MIXED = "it has gradients or momentum of another type than their parameters"
# What an optimizer keeps of earlier gradients, by a setting that it alone has: SGD, Adagrad.
KEPT = {"nesterov": "momentum_buffer", "lr_decay": "sum"}
TYPE = operator.attrgetter("dtype")
LATE = "with dampening, the fused update does not take parameters that begin later than others"


def refusal(record: Record) -> str | None:
    able = [one for one in record.optimizers if one.torchs_own and one.can_fuse]
    if not able:
        names = ", ".join(sorted({one.name for one in record.optimizers})) or "none was made"
        return f"no optimizer of torch's own that can be fused ({names})"
    if all(one.fused for one in able):
        return ALREADY
    half = {"bfloat16", "float16"} & set(reading.script(record).get("types") or ())
    if half and not reading.on_device(record) and all(one.name == "SGD" for one in able):
        return f"SGD: {HALF}"
    if reading.script(record).get("scaler"):
        return next((SCALED[one.name] for one in able if one.name in SCALED), None)
    return None


def promise(record: Record, verdict: Verdict) -> float:
    phase = record.phases["optimizer"].share or 0.0
    return 0.5 * phase


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "optimizer = torch.optim.AdamW(..., fused=True)  # or whichever it is"


def install(training: Training, settings: dict[str, Any]) -> None:
    def change(kind: type, arguments: dict[str, Any]) -> None:
        if kind.__name__ not in KINDS:
            training.refused(NAME, f"{kind.__name__} cannot be fused")
        elif kind.__name__ in SCALED and training.scales:
            training.refused(NAME, SCALED[kind.__name__])
        elif arguments.get("fused") or arguments.get("differentiable"):
            training.refused(NAME, ALREADY if arguments.get("fused") else DIFFERENTIABLE)
        else:
            arguments["fused"] = True
            arguments.pop("foreach", None)

    def keep_right() -> None:
        """A scaler that came after: it unscales and skips by itself, as for an unfused one."""
        for optimizer in training.optimizers:
            if any(isinstance(optimizer, getattr(training.torch.optim, one)) for one in SCALED):
                optimizer._step_supports_amp_scaling = False

    training.change_optimizers(NAME, change)
    training.when_scaler_made(keep_right)
    for name in KINDS:
        _look_at_gradients(training, getattr(training.torch.optim, name))


def _look_at_gradients(training: Training, kind: Any) -> None:
    """Just before each update: a closure may only now have made the gradients."""
    plain = vars(kind).get("_init_group")  # AdamW has that of Adam
    if plain is None:
        return

    @functools.wraps(plain)
    def init_group(this: Any, group: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        why = _unable(this, group) if group.get("fused") else None
        if why is not None:
            _take_back(this)
            elsewhere = any(_is_fused(one) for one in training.optimizers)
            tell = training.refused if elsewhere else training.withdrawn
            tell(NAME, f"{type(this).__name__}: {why}")
        answer = plain(this, group, *args, **kwargs)
        if group.get("fused") and len(args) > 1:
            _lay_out(this, *args)
        return answer

    kind._init_group = init_group


def _unable(optimizer: Any, group: dict[str, Any]) -> str | None:
    """Why the fused update of these parameters would fail now. Asked in each step: of all at once.

    A single parameter is looked at only where not all of them are of one type, or lie plainly.
    """
    trained = [one for one in group["params"] if one.grad is not None]
    gradients = [one.grad for one in trained]
    if any(one.is_sparse for one in gradients):
        return SPARSE
    types = set(map(TYPE, trained))
    if not all(one.is_floating_point for one in types):
        return COMPLEX
    if not all(layouts.contiguous(trained)) and not all(map(layouts.whole, trained)):
        return GAPS
    kept = [
        optimizer.state[one].get(KEPT[name]) for name in KEPT if name in group for one in trained
    ]
    if len(types | set(map(TYPE, gradients)) | {one.dtype for one in kept if one is not None}) > 1:
        alike = zip(trained * 2, [*gradients, *kept], strict=False)
        if any(other is not None and other.dtype != one.dtype for one, other in alike):
            return MIXED
    if any(one.itemsize < 4 for one in types) and _is_wrong_in_half(group, trained):
        return HALF
    return _begin_late(optimizer, group, trained, kept) if group.get("momentum") else None


def _is_wrong_in_half(group: dict[str, Any], trained: list[Any]) -> bool:
    return "nesterov" in group and any(one.is_cpu and one.element_size() < 4 for one in trained)


def _begin_late(
    optimizer: Any, group: dict[str, Any], trained: list[Any], momentum: list[Any]
) -> str | None:
    """Momentum for those that have none yet, where others have: torch fails over that.

    From zeros the first update comes to what it is without momentum, but for dampening.
    """
    late = [one for one, its in zip(trained, momentum, strict=True) if its is None]
    if not late or len(late) == len(trained):
        return None
    if group.get("dampening"):
        return LATE
    from torch import zeros_like

    for one in late:
        optimizer.state[one]["momentum_buffer"] = zeros_like(one)
    return None


def _lay_out(optimizer: Any, parameters: list[Any], gradients: list[Any], *states: Any) -> None:
    """What the update gets lies as its parameter does; a script's own gradients stay its own."""
    plain = layouts.contiguous(parameters)
    for place in layouts.apart(parameters, plain, gradients):
        gradients[place] = layouts.laid_out_like(parameters[place], gradients[place])
    for values in states:
        if not isinstance(values, list) or not values or values[0] is None:
            continue  # of torch 2.4's AdamW one is `amsgrad`
        for place in layouts.apart(parameters, plain, values):
            value, parameter = values[place], parameters[place]
            values[place] = layouts.laid_out_like(parameter, value)
            _replace(optimizer.state[parameter], value, values[place])


def _replace(state: dict[str, Any], value: Any, new: Any) -> None:
    for key in [key for key, one in state.items() if one is value]:
        state[key] = new


def _take_back(optimizer: Any) -> None:
    """All of it: a scaler asks the optimizer, not its groups, whether the update unscales."""
    for group in optimizer.param_groups:
        group["fused"] = group["foreach"] = None
    optimizer._step_supports_amp_scaling = False
    for state in optimizer.state.values():
        if "step" in state:
            state["step"] = state["step"].cpu()  # where the plain update reads it


def _is_fused(optimizer: Any) -> bool:
    return any(group.get("fused") for group in optimizer.param_groups)
