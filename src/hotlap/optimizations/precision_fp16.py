"""The model computes in float16, with the loss scaled so that small gradients survive.

## What it does
Runs each root module under `torch.autocast(dtype=torch.float16)`. The loss is scaled for the
backward pass and the gradients are unscaled as soon as it ends, so that clipping, logging and
accumulation see true gradients. A step whose gradients overflowed is skipped, counted, and the
scale halved; after 2000 good steps it doubles.

## Why it helps
Tensor cores from Volta on; half the memory traffic.

## When it does not help
GPUs with bfloat16, which needs no scaling; steps that are bound by launching kernels: looking for
overflow makes the host wait for the device once a step.

Left out on a CPU, where some operations fail in float16, and for models with parameters of bfloat16
or float16. Left out, too, as soon as the script makes a GradScaler of its own or an LBFGS, has
hooks on gradients (`register_hook`, `retain_grad`, backward hooks of modules: they would see scaled
ones), or takes gradients of a tensor that no optimizer trains, such as its inputs. A `backward` of
one's own that is not linear sees scaled gradients too.

## By hand
Autocast, and a `GradScaler` around backward, clipping and step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import gradient_hooks, leaves, precision, reading, weights
from hotlap.optimizations.precision_bf16 import already_reduced

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call, Training
    from hotlap.records import Record, Verdict

NAME = "precision-fp16"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ("precision-bf16",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
DEVICES = ("cuda",)
NO_CORES = "this GPU has no tensor cores"
FIRST_SCALE = 65536.0
GROWS_AFTER = 2000
SCALED = "the script scales its loss by itself"
LBFGS = "LBFGS looks at its gradients more than once for each step"
HOOKS = gradient_hooks.WHY.format("scaled ones")
BY_HAND = "the script takes gradients of a tensor that no optimizer trains"


def refusal(record: Record) -> str | None:
    if (why := reading.only_cuda(record)) is not None:
        return why
    if reading.capability(record) < (7, 0):
        return NO_CORES
    if reading.script(record).get("scaler"):
        return SCALED
    if reading.by_hand(record):
        return "no optimizer is seen to step, so it cannot be told when to look for overflow"
    if any(one.name == "LBFGS" for one in record.optimizers):
        return LBFGS
    return already_reduced(record)


def promise(record: Record, verdict: Verdict) -> float:
    better = reading.capability(record) >= (8, 0)  # bfloat16 does the same without scaling
    return (0.02 if better else 0.4) * reading.share(verdict, "compute")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return (
        "scaler = torch.amp.GradScaler()\n"
        "with torch.autocast(device.type, dtype=torch.float16):\n"
        "    loss = criterion(model(inputs), targets)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)  # before clipping\n"
        "scaler.step(optimizer)\n"
        "scaler.update()"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    scaling = Scaling(training)
    training.around_forward(NAME, scaling.around)
    training.when_scaler_made(lambda: scaling.leave(SCALED))
    training.when_training_starts(NAME, lambda module: scaling.begin(module))
    training.when_optimizer_made(scaling.guard)
    gradient_hooks.watch(training.torch, lambda: scaling.leave(HOOKS))
    scaling.wrap_backward()


class Scaling:
    """Gradients are scaled inside the backward pass only; outside they are what they should be."""

    def __init__(self, training: Training) -> None:
        self.torch = training.torch
        self._training = training
        self._active = False
        self._left = False  # as the script has it
        self.scale = FIRST_SCALE
        self.skipped = 0
        self._good = 0
        self._overflow: Any = None  # a tensor on the device, not 0 once a gradient was not finite
        self._answer: bool | None = None  # the same, read; stands until the next backward pass
        self._going_back = False
        self._trained: dict[int, Any] = {}  # by id, while going back
        self._others: dict[int, Any] = {}  # parameters it leads to, and that no optimizer holds

    def leave(self, why: str) -> None:
        if self._left:
            return
        self._active, self._left = False, True
        self._training.withdrawn(NAME, why)

    def around(self, module: Any, call: Call) -> Call:
        reduced = precision.around(self.torch, self.torch.float16)(module, call)

        def either(*args: Any, **kwargs: Any) -> Any:
            return (call if self._left else reduced)(*args, **kwargs)

        return call if self._left else either

    def begin(self, module: Any) -> None:
        why = self._hindrance(module)
        if why is not None:
            self.leave(why)
        if self._left:
            return
        self._active = True
        self._training.applied(NAME, type(module).__name__)

    def _hindrance(self, module: Any) -> str | None:
        """What a record would have told, asked of the model and where it is."""
        device = precision.device(self.torch, module)
        if device.type not in DEVICES:
            return reading.NO_DEVICE if device.type == "cpu" else f"training runs on {device.type}"
        if device.type == "cuda" and self.torch.cuda.get_device_capability(device) < (7, 0):
            return NO_CORES
        if gradient_hooks.there(module):
            return HOOKS
        return precision.own_types(precision.types(module))

    def wrap_backward(self) -> None:
        torch = self.torch
        plain = torch.autograd.backward

        @functools.wraps(plain)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            if not self._active or torch.compiler.is_compiling():
                return plain(tensors, grad_tensors, *args, **kwargs)
            inputs = kwargs.get("inputs")
            if self._going_back:  # within another one, as for a checkpoint: scaled already
                self._meet(leaves.reached(torch, tensors, inputs))
                return plain(tensors, grad_tensors, *args, **kwargs)
            start = weights.weighted(torch, tensors, grad_tensors, self.scale)
            if start is None:
                return plain(tensors, grad_tensors, *args, **kwargs)
            reached = leaves.reached(torch, start[0], inputs)
            trained = leaves.held(self._training.optimizers)
            if leaves.by_hand(torch, reached, trained):
                self.leave(BY_HAND)
                return plain(tensors, grad_tensors, *args, **kwargs)
            if self._answer is not None:  # an optimizer has stepped: a new round begins
                self._answer = self._overflow = None
            self._going_back, self._trained = True, trained
            self._enlarge(trained.values())
            self._meet(reached)
            try:
                return plain(*start, *args, **kwargs)
            finally:
                self._going_back = False
                self._unscale()

        torch.autograd.backward = backward

    def _meet(self, reached: list[Any]) -> None:
        """Parameters that no optimizer holds get gradients too, and clipping may look at them."""
        kind, known = self.torch.nn.Parameter, self._trained.keys() | self._others.keys()
        new = {id(one): one for one in reached if isinstance(one, kind) and id(one) not in known}
        self._enlarge(new.values())
        self._others.update(new)

    def _enlarge(self, parameters: Iterable[Any]) -> None:
        """Gradients accumulated before are made to match what is added now."""
        gradients = _gradients(parameters)
        if gradients:
            self.torch._foreach_mul_(gradients, self.scale)

    def _unscale(self) -> None:
        torch = self.torch
        trained, others = self._trained.values(), self._others.values()
        self._trained, self._others = {}, {}
        for gradient in _gradients(others):  # nobody sets these to zero: nothing may overflow
            gradient.mul_(1.0 / self.scale).nan_to_num_(0.0, 0.0, 0.0)
        by_kind: dict[Any, list[Any]] = {}
        for gradient in _gradients(trained):
            by_kind.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        for (device, _), gradients in by_kind.items():
            if self._overflow is None:
                self._overflow = torch.zeros(1, device=device)
            inverse = torch.full((1,), 1.0 / self.scale, device=device)
            found = torch.zeros(1, device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
            self._overflow += found.to(self._overflow.device)

    def guard(self, optimizer: Any) -> None:
        """Has the optimizer's class ask before each step whether the gradients are finite."""
        if isinstance(optimizer, self.torch.optim.LBFGS):
            self.leave(LBFGS)
        kind = type(optimizer)
        plain = kind.step
        if getattr(plain, "_hotlap_guard", None) is self or self._left:
            return

        @functools.wraps(plain)
        def step(this: Any, closure: Any = None, **kwargs: Any) -> Any:
            loss, given = None, {}
            if closure is not None:  # its backward pass comes before the question
                with self.torch.enable_grad():
                    loss = closure()
                given = {"closure": lambda: loss}
            if self._active and self._overflowed():
                self._drop(this)
                return loss
            return plain(this, **given, **kwargs)

        step._hotlap_guard = self  # type: ignore[attr-defined]
        kind.step = step

    def _drop(self, optimizer: Any) -> None:
        """What has overflowed must not count against another optimizer's step."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.zero_()

    def _overflowed(self) -> bool:
        if self._answer is None and self._overflow is not None:
            self._answer = bool(self._overflow.item())
            self._adjust(self._answer)
        return bool(self._answer)

    def _adjust(self, overflowed: bool) -> None:
        if overflowed:
            self.scale = max(1.0, self.scale / 2)
            self.skipped += 1
            self._good = 0
            self._training.count(NAME, "skipped_steps", self.skipped)
            self._training.write()
            return
        self._good += 1
        if self._good % GROWS_AFTER == 0:
            self.scale *= 2


def _gradients(parameters: Iterable[Any]) -> list[Any]:
    found = [one.grad for one in parameters if one.grad is not None]
    return [gradient._values() if gradient.is_sparse else gradient for gradient in found]
