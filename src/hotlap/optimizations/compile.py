"""torch.compile on the root modules: fused kernels, and CUDA graphs where asked.

## What it does
Compiles each root module's call at its first training forward, as `module.compile()` would: names
in checkpoints stay as they are. `mode = "reduce-overhead"` records the kernels of a step once as
CUDA graphs and replays them; steps are marked, and outputs handed out as copies, so that nothing
is overwritten while the script still holds it. Only training calls with the shapes of the first
one run compiled; a smaller last batch, evaluation and calls inside of `torch.func`'s transforms run
as before and cost no new compilation. Other shapes that come to stay are compiled for as well;
where they keep changing it compiles for any shape instead. Hooks of modules that are registered or
removed later are compiled in as well, a few times; a script that keeps doing it trains on
uncompiled.

## Why it helps
Fewer passes over memory, and far fewer launches: a step bound by launching kernels can become
several times faster with CUDA graphs.

## When it does not help
Short runs: compiling takes from seconds to minutes (the table shows after how many steps it has
paid). Models with many graph breaks.

Left out for a script whose own files take gradients of gradients (`create_graph=True`), which
compiled models do not have. Where only a library does, it ends there: the first calls with an input
whose own gradient is taken, as for a gradient penalty, run uncompiled for that. A library that goes
back twice through a call of another kind ends the training with torch's message.

## By hand
One line after the model is built. A model that reads a buffer and overwrites it in the same forward
pass (a moving average that is subtracted, then updated; a queue of negatives, even if it is copied
first; BatchNorm does not read what it updates) gets wrong gradients from torch's compiler then,
without a word: it computes from what the buffer has become (pytorch#197039; seen with 2.4 and
2.13). hotlap has it keep what was read.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hotlap.data import nests
from hotlap.optimizations import (
    double_backward,
    functorch,
    imports,
    module_hooks,
    partition,
    reading,
)
from hotlap.optimizations.roots import Way, unwrap
from hotlap.probes.modules import DOOR

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call, Training
    from hotlap.records import Record, Verdict

NAME = "compile"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
SETTINGS: dict[str, Any] = {"mode": MODES}
GRAPHS = ("reduce-overhead", "max-autotune")
SHAPES_BEFORE_ANY = 4  # as many different ones among the first calls mean that they keep changing
FIRST_CALLS = 16
MOST_HOOKED = 4  # compilations for other hooks of the model's modules
HOOKED = "the script keeps registering hooks of its modules"
IN_A_ROW = 3  # calls of another shape: the first one was a dry run, or the images have grown


def refusal(record: Record) -> str | None:
    if reading.compiles(record):
        return "the script already compiles its model"
    if not reading.on_device(record) and not any(map(shutil.which, ("g++", "clang++", "c++"))):
        return "compiling for the CPU needs a C++ compiler, and there is none on the PATH"
    if reading.is_older(record, (7, 0)):
        return "the compiler needs a GPU of compute capability 7.0 or later"
    if reading.by_hand(record):
        return reading.BY_HAND
    return None


def promise(record: Record, verdict: Verdict) -> float:
    launch = reading.share(verdict, "launch")
    # Waiting for the device (.item()) hides the launching it waits for.
    hidden = 0.5 * reading.share(verdict, "sync") if reading.on_device(record) else 0.0
    return 0.6 * launch + hidden + 0.2 * reading.share(verdict, "compute")


def candidates(record: Record) -> list[dict[str, Any]]:
    if reading.kind(record) != "cuda":
        return [{"mode": "default"}]
    return [{"mode": "reduce-overhead"}, {"mode": "default"}, {"mode": "max-autotune"}]


def by_hand(settings: dict[str, Any]) -> str:
    mode = settings.get("mode", "default")
    lines = "model.compile()" if mode == "default" else f'model.compile(mode="{mode}")'
    lines += "  # nn.Sequential and other classes of torch's own: torch.compile(model)"
    if mode in GRAPHS:
        lines += "\ntorch.compiler.cudagraph_mark_step_begin()  # before each step's forward"
    return lines


def install(training: Training, settings: dict[str, Any]) -> None:
    mode = settings.get("mode", "default")
    steps = _Steps(training) if mode in GRAPHS else None
    changes = module_hooks.changes(training.torch)
    made: weakref.WeakSet[Compiled] = weakref.WeakSet()

    def compiled(module: Any, call: Call) -> Call:
        one = Compiled(training, module, call, mode, steps, changes)
        made.add(one)
        return one

    def doubled() -> None:
        were_compiled = [one.stay_plain() for one in made]
        if any(were_compiled):
            training.withdrawn(NAME, double_backward.WHY.format(""))

    double_backward.watch(training.torch, doubled)
    imports.after(partition.MODULE, partition.mend)

    def wrap(module: Any, call: Call) -> Call:
        return _wrap(training, module, call, mode, compiled)

    training.around_forward(NAME, wrap)


def _wrap(
    training: Training, module: Any, call: Call, mode: str, compiled: Callable[[Any, Call], Call]
) -> Call:
    torch = training.torch
    inner = unwrap(torch, module)
    if isinstance(module, torch.nn.DataParallel) and inner is module:
        training.refused(NAME, "DataParallel on several devices cannot be compiled as a whole")
        return call
    place = double_backward.in_source()
    if place is not None:
        training.refused(NAME, double_backward.WHY.format(f" ({place})"))
        return call
    if inner is not module:  # compiled one level down, where the wrapper passes the call on to
        below = inner.__dict__.get(DOOR) or inner._call_impl
        inner.__dict__[DOOR] = Way(compiled(inner, below), below)
    training.applied(NAME, f"{type(inner).__name__}, {mode}")
    return call if inner is not module else compiled(module, call)


class Compiled:
    """Runs the compiled call for the shapes it was made for, and the plain one for others."""

    def __init__(
        self,
        training: Training,
        module: Any,
        call: Call,
        mode: str,
        steps: _Steps | None,
        changes: Callable[[], Any],
    ) -> None:
        torch = training.torch
        self._torch = torch
        self._training = training
        self._module = module
        self._plain = call
        self._steps = steps
        self._mode = None if mode == "default" else mode
        self._transforming = functorch.inside(torch)
        self._changes = changes
        self._seen = changes()
        self._any = False  # compiled for any shape
        self._hooks = module_hooks.of(torch, module)
        self._fast = self._compiled()
        self._hooked = {self._hooks: self._fast}
        self._shapes: Any = None
        self._others: set[Any] = set()
        self._latest: Any = None  # of other shapes
        self._in_a_row = 0
        self._calls = 0
        self._asked = 0  # calls with an input whose own gradient is taken
        self._running = False
        self._for_good = False  # stays plain

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = self._torch
        if torch.compiler.is_compiling():  # as part of something the script compiles
            return self._plain(*args, **kwargs)
        if self._running:  # torch 2.4 puts a module of its own into the graph whole, and calls it
            return self._plain(*args, **kwargs)
        if self._transforming():
            return self._plain(*args, **kwargs)
        if not self._module.training or not torch.is_grad_enabled():
            return self._plain(*args, **kwargs)
        if self._changes() != self._seen:
            self._look_at_hooks()
        if self._asked < FIRST_CALLS and double_backward.likely(torch, args, kwargs):
            self._asked += 1
            return self._plain(*args, **kwargs)
        if not self._any and not self._fits(_shapes(torch, args, kwargs)):
            return self._plain(*args, **kwargs)
        if self._steps is None:
            return self._run(args, kwargs)
        self._steps.mark()
        return nests.replaced(torch, self._run(args, kwargs), lambda tensor: tensor.clone())

    def _fits(self, shapes: Any) -> bool:
        """Whether these are the shapes it is compiled for, or becomes compiled for."""
        self._calls += 1
        if self._shapes is None or shapes == self._shapes:
            self._shapes, self._in_a_row = shapes, 0
            return True
        if self._calls <= FIRST_CALLS:
            self._others.add(shapes)
        if len(self._others) >= SHAPES_BEFORE_ANY and self._steps is None:
            self._take_any()
            return True
        self._in_a_row = self._in_a_row + 1 if shapes == self._latest else 1
        self._latest = shapes
        if self._in_a_row < IN_A_ROW:
            return False
        self._shapes = shapes
        return True

    def _run(self, args: Any, kwargs: Any) -> Any:
        self._running = True
        try:
            return self._fast(*args, **kwargs)
        except self._torch._dynamo.exc.TorchDynamoException as problem:
            if not self._training.forgiving:
                raise
            self._training.refused(NAME, f"it does not compile: {str(problem).splitlines()[0]}")
            self.stay_plain()
            return self._plain(*args, **kwargs)
        finally:
            self._running = False

    def _compiled(self) -> Any:
        if module_hooks.unseen(self._torch):
            return self._plain
        return self._torch.compile(_frame(self._plain), mode=self._mode, dynamic=self._any)

    def _take_any(self) -> None:
        self._any = True
        self._fast = self._compiled()
        self._hooked = {self._hooks: self._fast}

    def _look_at_hooks(self) -> None:
        """Those that are compiled in may not be those that the model has now."""
        self._seen = self._changes()
        hooks = module_hooks.of(self._torch, self._module)
        if hooks == self._hooks or self._for_good:
            return
        if hooks not in self._hooked and len(self._hooked) > MOST_HOOKED:
            self._training.ended(NAME, HOOKED)
            self.stay_plain()
            return
        self._hooks = hooks
        self._fast = self._hooked.get(hooks) or self._compiled()
        self._hooked[hooks] = self._fast

    def stay_plain(self) -> bool:
        """Whether it was not before."""
        before, self._fast, self._any = self._for_good, self._plain, True
        self._for_good = True
        return not before


class _Steps:
    """Tells CUDA graphs where a step begins: once after each optimizer step, not each forward."""

    def __init__(self, training: Training) -> None:
        self._mark = training.torch.compiler.cudagraph_mark_step_begin
        self._due = True
        training.after_step(self._ended)

    def _ended(self) -> None:
        self._due = True

    def mark(self) -> None:
        if self._due:
            self._due = False
            self._mark()


def _frame(call: Call) -> Call:
    """The call in a function of its own: torch compiles no frame of its own modules' classes.

    The function's code is its own too: compilations are counted, and limited, for each code.
    """

    def framed(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    framed.__code__ = framed.__code__.replace()
    return framed


def _shapes(torch: Any, args: Any, kwargs: Any) -> Any:
    """What a compiled call is good for: shapes of tensors, and plain values, each in its place."""

    def of(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return tuple(value.shape)
        if isinstance(value, (list, tuple)):
            return tuple(map(of, value))
        if isinstance(value, dict):
            return tuple((key, of(item)) for key, item in value.items())
        return value if isinstance(value, (bool, int, float, str)) else None

    return of(args), of(kwargs)
