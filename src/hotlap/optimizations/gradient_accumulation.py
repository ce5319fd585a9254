"""The same effective batch in parts: less memory, several forward passes for each update.

## What it does
The training loader hands out each batch in `parts`; every backward pass counts for its part, and
only every `parts`-th optimizer step (and gradient reset, and clipping, and step of a schedule that
is stepped with each batch) is carried out. The loader's length is the number of parts, so a
schedule that is made after the script has asked for it counts parts as well.

## Why it helps
Activations of a part of the batch need a part of the memory.

## When it does not help
It is slower. Batch norm sees the smaller batches, so the result can differ: never used unless
allowed with `--allow gradient-accumulation`. A last batch of fewer samples than there are parts,
and the last one of an IterableDataset, is completed by the first parts of the next epoch. A loop
over a fixed number of steps makes fewer updates.

The loss must be a mean over the batch: each part's counts for its share of the samples. A loss of
torch's with `reduction="sum"` is seen where it is what `backward` is called on, alone or added to
others, and is summed over the parts; that of a loss of one's own, of L1Loss, KLDivLoss and
PoissonNLLLoss, and of one within a compiled model, is not seen and comes out too small.

Left out, also while training, for a script with a GradScaler, several optimizers (one that holds
another, as SAM's does, is two), LBFGS or none of torch's optimizers, with hooks on gradients, which
would see those of a part, and for one that clears or changes its gradients at another time than
between a step and the next backward pass, writes to them there, or takes gradients of a tensor that
no optimizer trains along with them. Where gradients are written to is looked for in the script's
own source before training; elsewhere it is seen at the first step that comes after, which is then
not carried out. What a library writes to them through `.data`, from the second update on, is not
seen.

## By hand
An inner loop over parts of the batch.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import gradient_hooks, leaves, reading, weights, written_gradients
from hotlap.optimizations.parts import Epoch, Whole, hand_out
from hotlap.probes.batches import innermost

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "gradient-accumulation"
NUMERICS = "changes"
CONFLICTS: tuple[str, ...] = ("batch-size", "precision-fp16", "zero-grad-none")
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"parts": int}
REQUIRED = ("parts",)
BATCH_SAMPLER = "the loader's batches are made by a batch sampler"
SUM = 2  # what torch's losses remember as reduction="sum"
HOOKS = gradient_hooks.WHY.format("those of a part of the batch")
SEVERAL = "several optimizers step in turns"
BY_HAND = "the script takes gradients of a tensor that no optimizer trains"
BEFORE_THE_STEP = "the script clears or changes its gradients between a backward pass and its step"
ADDING = ("AddBackward0", "SubBackward0")


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.batch_size is None:
        return BATCH_SAMPLER
    if reading.by_hand(record):
        return "no optimizer is seen to step, so it cannot be told when a batch is whole"
    if len(record.optimizers) > 1:
        return SEVERAL
    if any(one.name == "LBFGS" for one in record.optimizers):
        return "LBFGS looks at a batch more than once for each step"
    if reading.script(record).get("scaler"):
        return "the script scales its loss by itself"
    if not candidates(record):
        return f"a batch of {loader.batch_size} cannot be divided"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.0  # for memory, never for speed


def candidates(record: Record) -> list[dict[str, Any]]:
    loader = reading.loader(record)
    size = (loader.batch_size if loader else None) or 1
    return [{"parts": parts} for parts in (2, 4) if size % parts == 0]


def by_hand(settings: dict[str, Any]) -> str:
    parts = settings.get("parts", 2)
    return (
        f"for inputs, targets in zip(batch.chunk({parts}), labels.chunk({parts})):\n"
        f"    (criterion(model(inputs), targets) / {parts}).backward()\n"
        "optimizer.step()\n"
        "optimizer.zero_grad()"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    number = int(settings.get("parts", 2))
    rounds = _Rounds(training, number)

    def change(arguments: dict[str, Any]) -> None:
        rounds.read_source()
        size = arguments.get("batch_size", 1) or 0
        sampler = arguments.get("batch_sampler")
        if sampler is not None:
            size = getattr(innermost(sampler), "batch_size", None)
        if rounds.left or isinstance(size, Whole):
            return  # made anew from one of them, as Lightning and accelerate do
        if sampler is not None:
            training.refused(NAME, BATCH_SAMPLER)
            return
        if not size or size % number:
            training.refused(NAME, f"a batch of {size} cannot be divided by {number}")
            return
        rounds.active = True
        arguments["batch_size"] = Whole(size, number)

    training.change_loaders(NAME, change)
    training.when_optimizer_made(rounds.wrap_optimizer)
    training.when_scaler_made(lambda: rounds.leave("the script scales its loss by itself"))
    gradient_hooks.watch(training.torch, lambda: rounds.leave(HOOKS))
    whole = functools.partial(rounds.leave, BATCH_SAMPLER)
    hand_out(training.torch, lambda: rounds.active, rounds.length_asked, rounds.handed_out, whole)
    rounds.wrap_backward()
    rounds.wrap_clipping()
    rounds.wrap_schedules()


class _Rounds:
    """Counts the script's steps: every `parts`-th is one, and a new round begins after it."""

    def __init__(self, training: Training, parts: int) -> None:
        self._training = training
        self._torch = training.torch
        self._parts = parts
        self._steps = 0  # that the script has asked for
        self._stepping = False
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._put_off: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._length_asked = False
        self._counting_parts: weakref.WeakSet[Any] = weakref.WeakSet()  # schedules
        self._going_back = False
        self._epoch: Epoch | None = None  # of the loader that has handed out a part last
        # Since the last step; since the last backward pass, where no step has come after it.
        self._unfinished: list[written_gradients.Noted] = []
        self._added: list[written_gradients.Noted] = []
        self._spoiled = False  # what the next step would update with
        self.active = False
        self.left = False
        module = training.torch.nn.Module
        module.zero_grad = self._at_the_beginning(module.zero_grad)

    @property
    def _begins(self) -> bool:
        return not self.active or self._steps % self._parts == 0

    @property
    def _ends(self) -> bool:
        return not self.active or (self._steps + 1) % self._parts == 0

    def leave(self, why: str) -> None:
        """From here on batches are whole again, and every step is one."""
        if self.left:
            return
        self.active, self.left, self._unfinished, self._added = False, True, [], []
        self._training.withdrawn(NAME, why)

    def length_asked(self) -> None:
        self._length_asked = True

    def handed_out(self, epoch: Epoch) -> None:
        self._epoch = epoch

    @property
    def _share(self) -> float:
        """That the part has which the script trains with; it may have asked for the next ones."""
        shares = self._epoch.shares if self._epoch is not None else ()
        return shares[0] if shares else 1.0 / self._parts

    def wrap_backward(self) -> None:
        torch = self._torch
        plain = torch.autograd.backward

        @functools.wraps(plain)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            if not self.active or self._going_back:  # within another one: it has its share
                return plain(tensors, grad_tensors, *args, **kwargs)
            start = None
            if self._trains(leaves.reached(torch, tensors, kwargs.get("inputs"))):
                self._go_on()
                share = 1.0 if _summed(torch, tensors) else self._share
                start = weights.weighted(torch, tensors, grad_tensors, share)
            if start is None or not self.active:
                return plain(tensors, grad_tensors, *args, **kwargs)
            self._going_back = True
            try:
                return plain(*start, *args, **kwargs)
            finally:
                self._going_back = False
                self._note()

        torch.autograd.backward = backward

    def _trains(self, reached: list[Any]) -> bool:
        """Whether a backward pass is one of those whose gradients an optimizer steps with."""
        optimizers = self._training.optimizers
        if not optimizers:
            self.leave("no optimizer is seen to step, so it cannot be told when a batch is whole")
        if len(optimizers) > 1:
            self.leave(SEVERAL)
        trained = leaves.held(optimizers)
        if not self.active or not any(id(one) in trained for one in reached):
            return False
        if leaves.by_hand(self._torch, reached, trained):
            self.leave(BY_HAND)
        return self.active

    def _go_on(self) -> None:
        """Gradients of a round that the script has dropped by itself are there again."""
        self._look()
        if self.left:
            return
        unfinished, self._unfinished = self._unfinished, []
        if any(written_gradients.changed(*one) for one in unfinished):
            self.leave("the script writes to its gradients between two steps")
            return
        for parameter, gradient, *_ in unfinished:
            parameter.grad = gradient

    def _note(self) -> None:
        """What is written through `.data` has no version: in the first round norms tell it."""
        closely = self._steps < self._parts
        self._added = written_gradients.noted(self._training.optimizers, closely=closely)

    def _look(self) -> None:
        """Ends it where the script has changed gradients since the last backward pass."""
        changed = written_gradients.changed
        if any(changed(*one) or one[0].grad is None for one in self._added):
            self._spoiled = any(one[0].grad is not None for one in self._added)
            self.leave(BEFORE_THE_STEP)

    def read_source(self) -> None:
        place = written_gradients.in_source() if not self.left else None
        if place is not None:
            self.leave(written_gradients.WHY.format(place))

    def wrap_optimizer(self, optimizer: Any) -> None:
        self.read_source()
        if isinstance(optimizer, self._torch.optim.LBFGS):
            self.leave("LBFGS looks at a batch more than once for each step")
        trained = leaves.held([optimizer])
        for one in self._training.optimizers:
            if leaves.held([one]).keys() != trained.keys() or _within(optimizer, one):
                self.leave(SEVERAL)
        if gradient_hooks.on(trained.values()):
            self.leave(HOOKS)
        kind = type(optimizer)
        if not getattr(kind.step, "_hotlap_rounds", False):
            kind.step = self._at_the_end(kind.step)
        if not getattr(kind.zero_grad, "_hotlap_rounds", False):
            kind.zero_grad = self._at_the_beginning(kind.zero_grad)

    def _at_the_end(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def step(this: Any, closure: Any = None, **kwargs: Any) -> Any:
            if self._stepping:  # a class's own step, around that of the class below
                return plain(this, closure, **kwargs) if closure else plain(this, **kwargs)
            self._stepping = True
            try:
                if self._ends and closure:
                    return plain(this, closure, **kwargs)
                with self._torch.enable_grad():
                    loss = closure() if closure else None
                self._look()
                if self._spoiled:  # changed as if it were of a whole batch
                    self._spoiled = False
                    return loss
                return plain(this, **kwargs) if self._ends else loss
            finally:
                self._stepping = False
                self._steps += 1
                self._added = []
                if self._epoch is not None and self._epoch.shares:
                    self._epoch.shares.popleft()
                if not self._begins:
                    self._unfinished = written_gradients.noted([this])

        step._hotlap_rounds = True  # type: ignore[attr-defined]
        return step

    def _at_the_beginning(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def zero_grad(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._added and self._clears_them(this):
                self.leave(BEFORE_THE_STEP)
            return plain(this, *args, **kwargs) if self._begins else None

        zero_grad._hotlap_rounds = True  # type: ignore[attr-defined]
        return zero_grad

    def _clears_them(self, owner: Any) -> bool:
        """A second look at the same batch, as SAM takes it: what follows is no part of a round."""
        optimizer = hasattr(owner, "param_groups")
        cleared = leaves.held([owner]).values() if optimizer else owner.parameters()
        return not {id(one) for one in cleared}.isdisjoint(id(one[0]) for one in self._added)

    def wrap_clipping(self) -> None:
        """Gradients are clipped when they are whole; before that only their norm is answered.

        torch writes to them even where it clips nothing.
        """
        owners = (self._torch.nn.utils, self._torch.nn.utils.clip_grad)
        by_norm, by_value = owners[0].clip_grad_norm_, owners[0].clip_grad_value_

        @functools.wraps(by_norm)
        def clip_norm(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
            self._look()
            most = max_norm if self._ends else float("inf")
            norm = by_norm(parameters, most, *args, **kwargs)
            if self._added:
                self._note()
            return norm

        @functools.wraps(by_value)
        def clip_value(*args: Any, **kwargs: Any) -> None:
            self._look()
            if self._ends:
                by_value(*args, **kwargs)
            if self._added:
                self._note()

        for owner in owners:
            owner.clip_grad_norm_, owner.clip_grad_value_ = clip_norm, clip_value

    def wrap_schedules(self) -> None:
        kind = self._torch.optim.lr_scheduler.LRScheduler
        for found in {kind, *_subclasses(kind)}:
            if "step" in vars(found):
                found.step = self._per_update(found.step)

    def _per_update(self, plain: Any) -> Any:
        """A schedule that is stepped with every batch counts updates, as it did before.

        One that may be made for the loader's length, which counts parts, makes up for them after
        each update.
        """

        @functools.wraps(plain)
        def step(this: Any, *args: Any, **kwargs: Any) -> Any:
            with_every_batch = self._steps - self._seen.get(this, 0) == 1
            self._seen[this] = self._steps
            being_made = not hasattr(this, "_last_lr")
            if being_made and self._length_asked:
                self._counting_parts.add(this)
            if with_every_batch and not being_made and not self._begins:
                self._put_off[this] = self._put_off.get(this, 0) + 1
                return None
            put_off, inner = self._put_off.pop(this, 0), getattr(this, "_schedulers", ())
            if any(one in self._counting_parts for one in (this, *inner)):
                for _ in range(put_off):
                    plain(this)
            return plain(this, *args, **kwargs)

        return step


def _summed(torch: Any, losses: Any) -> bool:
    """Whether a loss is the sum over its samples: then that of a batch is the sum of its parts'."""
    given = [losses] if isinstance(losses, torch.Tensor) else list(losses)
    coming, seen = [getattr(one, "grad_fn", None) for one in given], set()
    while coming:
        made_by = coming.pop()
        if made_by is None or made_by in seen:
            continue
        seen.add(made_by)
        if getattr(made_by, "_saved_reduction", None) == SUM:
            return True
        if type(made_by).__name__ in ADDING:
            coming += [one for one, _ in made_by.next_functions]
    return False


def _subclasses(kind: Any) -> list[Any]:
    return [deeper for one in kind.__subclasses__() for deeper in (one, *_subclasses(one))]


def _within(optimizer: Any, other: Any) -> bool:
    """Whether one was made with the groups of the other, which steps through it."""
    theirs = {id(group) for group in other.param_groups}
    return optimizer is not other and any(id(one) in theirs for one in optimizer.param_groups)
