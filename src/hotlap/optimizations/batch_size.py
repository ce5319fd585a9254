"""A larger batch, with the learning rate adjusted to it. Changes what is learned.

## What it does
Multiplies the training loader's batch size, and the learning rate of every optimizer: by the same
factor for SGD ("linear"), by its square root for adaptive ones ("sqrt"), or not at all ("keep").
The rate is multiplied for each update and put back after it, whatever sets it: a schedule, the
script, a checkpoint.

## Why it helps
Each launch, each synchronisation and each optimizer step is shared by more samples; large GPUs are
idle with small batches.

## When it does not help
Once the device is busy, more samples take more time. Training takes fewer steps for an epoch, so
schedules that count steps end early, and the result can differ: never used unless allowed with
`--allow batch-size`. A loader whose epoch has fewer samples than the larger batch is left alone.

## By hand
Two numbers: the size of a batch, and the rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading
from hotlap.optimizations.midway import scripts_own
from hotlap.probes.batches import innermost

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "batch-size"
NUMERICS = "changes"
CONFLICTS: tuple[str, ...] = ("gradient-accumulation",)
NEEDS: tuple[str, ...] = ()
RULES = ("linear", "sqrt", "keep")
SETTINGS: dict[str, Any] = {"factor": int, "learning-rate": RULES}
REQUIRED = ("factor",)
_ADAPTIVE = ("Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop")


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.batch_size is None:
        return "the loader's batches are made by a batch sampler"
    if not candidates(record):
        return "an epoch is a single batch"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.5 * reading.share(verdict, "launch", "sync", "optimizer", "other") + 0.1


def candidates(record: Record) -> list[dict[str, Any]]:
    loader = reading.loader(record)
    batches = loader.batches if loader and loader.batches else 1 << 30
    adaptive = any(one.name in _ADAPTIVE for one in record.optimizers)
    rule = "sqrt" if adaptive else "linear" if record.optimizers else "keep"
    return [
        {"factor": factor, "learning-rate": rule} for factor in (2, 4, 8) if 2 * factor <= batches
    ]


def by_hand(settings: dict[str, Any]) -> str:
    factor, rule = settings.get("factor", 2), settings.get("learning-rate", "linear")
    line = f"loader = DataLoader(dataset, ..., batch_size={factor} * batch_size)"
    if rule == "keep":
        return line
    times = f"{factor}" if rule == "linear" else f"{factor} ** 0.5"
    return (
        f"{line}\n"
        "for group in optimizer.param_groups:  # before a schedule is made\n"
        f"    group['lr'] *= {times}"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    factor = int(settings.get("factor", 2))
    rule = settings.get("learning-rate", "linear")
    by = {"linear": float(factor), "sqrt": factor**0.5, "keep": 1.0}[rule]

    larger: dict[int, int] = {}  # datasets, with the batch size they were given
    multiplied: Multiplied = {}

    def change(arguments: dict[str, Any]) -> None:
        dataset = id(scripts_own(arguments.get("dataset")))
        sampler, size = arguments.get("batch_sampler"), arguments.get("batch_size", 1)
        if sampler is not None:
            size = getattr(innermost(sampler), "batch_size", None)
        if size is not None and larger.get(dataset) == size:
            return  # made anew from one like that, as Lightning and accelerate do
        if sampler is not None or size is None:
            training.refused(NAME, "the loader's batches are made by a batch sampler")
            return
        samples = _samples(arguments)
        if samples is not None and samples < size * factor:  # with drop_last there would be none
            training.refused(NAME, f"an epoch of {samples} samples has no batch of {size * factor}")
            return
        arguments["batch_size"] = larger[dataset] = size * factor

    def follow(optimizer: Any) -> None:
        rates = _Rates(by, larger, multiplied)
        optimizer.register_step_pre_hook(rates.multiply)
        optimizer.register_step_post_hook(rates.put_back)

    training.change_loaders(NAME, change)
    if rule != "keep":
        training.when_optimizer_made(follow)


def _samples(arguments: dict[str, Any]) -> int | None:
    """In an epoch, where that is known."""
    drawn = arguments.get("sampler")
    try:
        return len(drawn if drawn is not None else arguments["dataset"])
    except (TypeError, NotImplementedError):
        return None


class _Rates:
    """One optimizer's learning rates, multiplied while it steps.

    Once: also where the step of a class is within that of one below it, or an optimizer's within
    that of one that is made around it and has the same groups.
    """

    def __init__(self, by: float, larger: dict[int, int], multiplied: Multiplied) -> None:
        self._by = by
        self._larger = larger
        self._multiplied = multiplied

    def multiply(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups if self._larger else ():
            rate, known = group.get("lr"), self._multiplied.get(id(group))
            if rate is None or (known is not None and known[1] is rate):
                continue
            group["lr"] = rate * self._by
            self._multiplied[id(group)] = rate, group["lr"], self

    def put_back(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            plain, _, owner = self._multiplied.get(id(group), (None, None, None))
            if owner is self:
                group["lr"] = plain
                del self._multiplied[id(group)]


# By group: its rate, what that was multiplied to, and by whom.
Multiplied = dict[int, tuple[Any, Any, _Rates]]
