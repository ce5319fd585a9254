"""What both scripts share: options, optimizers, schedules, precision, and telling how it goes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hotlap.errors import HotlapError, UsageError

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, weight_decay=5e-4),
    "nesterov": lambda p, lr: torch.optim.SGD(
        p, lr, momentum=0.9, weight_decay=5e-4, nesterov=True
    ),
    "adagrad": lambda p, lr: torch.optim.Adagrad(p, lr),
    "adadelta": lambda p, lr: torch.optim.Adadelta(p, lr),
    "adam": lambda p, lr: torch.optim.Adam(p, lr),
    "adamw": lambda p, lr: torch.optim.AdamW(p, lr),
    "adam-fused": lambda p, lr: torch.optim.Adam(p, lr, fused=True),
    "adamw-fused": lambda p, lr: torch.optim.AdamW(p, lr, fused=True),
}
RATES = {"sgd": 0.1, "nesterov": 0.1, "adagrad": 0.01, "adadelta": 1.0}
USUAL_RATE = 1e-3
SCHEDULES = ("onecycle", "cosine", "constant")
PRECISIONS = ("fp32", "bf16", "fp16")
MOST = 2**31 - 1
DESERTED = 141  # as a shell calls the end by SIGPIPE
SEEDS = 2**62  # torch takes twice as many; processes add their rank


def at_least(least: int) -> Callable[[str], int]:
    """For an option: a whole number that is not smaller, nor larger than anything can be."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        if value > MOST:
            raise argparse.ArgumentTypeError(f"{value} is more than {MOST}")
        return value

    return number


def rate(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no learning rate")
    return value


def device(text: str) -> str:
    try:
        nowhere = torch.empty(0, device=text).is_meta
    except (RuntimeError, AssertionError, ImportError) as problem:
        reason = str(problem).splitlines()[0].partition(". ")[0]
        raise argparse.ArgumentTypeError(f"{text} cannot be used: {reason}") from None
    if nowhere:
        raise argparse.ArgumentTypeError(f"{text} cannot be used: it holds no numbers")
    return text


def file(text: str) -> Path:
    """For an option: a file that can be written."""
    path = Path(text)
    try:
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise argparse.ArgumentTypeError(f"{text} is a folder, or lies in none")
        _try_to_write(path)
    except OSError as problem:
        reason = f"{text} cannot be written: {problem.strerror}"
        raise argparse.ArgumentTypeError(reason) from None
    return path


def _try_to_write(path: Path) -> None:
    """Now, and not when an epoch is over; it leaves no file behind, and what there is as it is."""
    new = not os.path.lexists(path)
    if new or path.is_file():
        path.open("a").close()
    if new:
        path.unlink(missing_ok=True)


def folder(text: str) -> Path:
    """For an option: a folder that is there or can be made."""
    path = Path(text)
    try:
        above = (path.absolute(), *path.absolute().parents)
        there = next(one for one in above if one.exists())
    except OSError as problem:
        reason = f"{text} cannot be used: {problem.strerror}"
        raise argparse.ArgumentTypeError(reason) from None
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is no folder")
    return path


def seed(text: str) -> int:
    value = int(text)
    if abs(value) >= SEEDS:
        raise argparse.ArgumentTypeError(f"{text} is too large for a seed")
    return value


def command(main: Callable[[], None]) -> None:
    """Runs it as a script: what the user can set right is a sentence, not a traceback."""
    try:
        main()
    except KeyboardInterrupt:
        sys.excepthook = lambda *told: None  # the signal still ends it: a shell's loop ends, too
        raise
    except BrokenPipeError:  # whoever read along has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DESERTED)
    except HotlapError as problem:
        print(_sentence(problem), file=sys.stderr)
        sys.exit(problem.exit_code)


def _sentence(problem: HotlapError) -> str:
    """Without the traceback that a loader's worker hands over in place of the message."""
    said = str(problem)
    if "\nOriginal Traceback" not in said:
        return said
    return said.strip().splitlines()[-1].partition(": ")[2]


def options(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", default="synthetic", help="synthetic, a path, or (cifar alone) download"
    )
    parser.add_argument("--batch", type=at_least(1), default=128)
    parser.add_argument("--epochs", type=at_least(1), default=5)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--lr", type=rate, help="the optimizer's usual one if not given")
    parser.add_argument("--schedule", choices=SCHEDULES, default="onecycle")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--accumulate", type=at_least(1), default=1, help="batches for one step")
    parser.add_argument("--workers", type=at_least(0), default=2)
    parser.add_argument("--samples", type=at_least(1), default=0, help="only so many of them")
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", type=device, default=usual)
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--quiet", action="store_true", help="no line for every batch")
    parser.add_argument("--log", type=file, help="write a line of JSON for every epoch there")
    return parser


def learning_rate(given: argparse.Namespace) -> float:
    usual = RATES.get(given.optimizer, USUAL_RATE)
    return usual if given.lr is None else float(given.lr)


def steps_of(batches: int, accumulate: int) -> int:
    """The last step of an epoch takes what is left."""
    return -(-batches // accumulate)


def schedule_of(name: str, optimizer: Any, lr: float, steps: int) -> Any:
    rates = torch.optim.lr_scheduler
    if name == "onecycle":
        # The momentum goes the other way where there is one; Adagrad and Adadelta have none.
        cycled = bool({"momentum", "betas"} & optimizer.defaults.keys())
        return rates.OneCycleLR(
            optimizer, max_lr=lr, total_steps=max(1, steps), cycle_momentum=cycled
        )
    if name == "cosine":
        return rates.CosineAnnealingLR(optimizer, T_max=max(1, steps))
    return rates.ConstantLR(optimizer, factor=1.0)


class Precision:
    """Autocast around the forward pass, and a scaler where float16 needs one."""

    def __init__(self, name: str, device: torch.device) -> None:
        kinds = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
        self._dtype, self._device = kinds[name], device
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")

    def forward(self) -> AbstractContextManager[Any]:
        if self._dtype is None:
            return nullcontext()
        found: AbstractContextManager[Any] = torch.autocast(self._device.type, self._dtype)
        return found

    def step(self, optimizer: Any) -> bool:
        """Whether it was taken: the scaler leaves one out where float16 was too small for it."""
        before = self.scaler.get_scale()
        self.scaler.step(optimizer)
        self.scaler.update()
        return bool(self.scaler.get_scale() >= before)


class Log:
    """What an epoch came to, as a line of JSON each; nothing where no file was asked for."""

    def __init__(self, path: Path | None, device: torch.device) -> None:
        self._path, self._device = path, device
        if path is not None:
            self._write(path, "w", "")

    def add(self, **figures: Any) -> None:
        if self._path is None:
            return
        if self._device.type == "cuda":
            figures["peak_bytes"] = torch.cuda.max_memory_allocated(self._device)
        self._write(self._path, "a", json.dumps(figures) + "\n")

    def _write(self, path: Path, mode: str, text: str) -> None:
        try:
            with path.open(mode) as file:
                file.write(text)
        except OSError as problem:
            reason = f"{path} cannot be written: {problem.strerror}. Give --log another file."
            raise UsageError(reason) from problem


class Clock:
    """How long an epoch waited for batches, and how long it took in all."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self.loading = 0.0

    def waiting(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Starting the workers is waiting, too: until then there is no batch."""
        began = time.perf_counter()
        source = iter(batches)
        while True:
            try:
                batch = next(source)
            except StopIteration:
                return
            finally:
                self.loading += time.perf_counter() - began
            yield batch
            began = time.perf_counter()

    @property
    def total(self) -> float:
        return time.perf_counter() - self._began

    def read(self) -> dict[str, float]:
        total = self.total
        return {
            "loading_seconds": self.loading,
            "training_seconds": total - self.loading,
            "total_seconds": total,
        }


def told(times: dict[str, float]) -> str:
    """loading 1.20 s, training 3.40 s, total 4.60 s."""
    return ", ".join(f"{name.removesuffix('_seconds')} {s:.2f} s" for name, s in times.items())


def train_epoch(
    model: nn.Module,
    batches: Any,
    loss_of: Callable[[Any, Any], torch.Tensor],
    optimizer: Any,
    schedule: Any,
    precision: Precision,
    *,
    device: torch.device,
    samples: int,
    accumulate: int = 1,
    tell: Callable[[int, float, Any, Any], None] = lambda number, loss, outputs, targets: None,
) -> tuple[float, Clock]:
    """The mean loss over all samples, and where the time went.

    `accumulate` batches make a step, whose gradient is the mean over all of their samples. The last
    step of an epoch takes what is left of its `samples`.
    """
    model.train()
    clock = Clock()
    total, count, last = 0.0, 0, len(batches)
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(clock.waiting(batches), 1):
        inputs, targets = inputs.to(device), targets.to(device)
        with precision.forward():
            outputs = model(inputs)
            loss = loss_of(outputs, targets)
        size = len(targets)  # the last batch may be a smaller one
        if (number - 1) % accumulate == 0:
            together = min(accumulate * size, samples - count)
        precision.scaler.scale(loss * (size / together)).backward()
        if number % accumulate == 0 or number == last:
            if precision.step(optimizer):
                schedule.step()
            optimizer.zero_grad()
        mean = loss.item()
        total, count = total + mean * size, count + size
        tell(number, mean, outputs, targets)
    return total / max(1, count), clock
