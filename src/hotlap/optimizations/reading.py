"""What optimizations ask of the baseline's record to decide whether they apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.records import Loader, Record, Verdict

BF16_FLAGS = {"amx_bf16", "avx512_bf16"}
NO_DEVICE = "training runs on the CPU"
NO_EXCHANGE = "no DistributedDataParallel exchanges gradients"
BY_HAND = "no optimizer steps, so it cannot be told which module is trained"
FETCHING_BELOW = 0.5  # waiting for input that burns less CPU than this is waiting on storage
EACH_STEP = 0.95  # of the steps
MAKING_BELOW = 0.5  # of the workers' time: what training waits for is not the making of batches
HAND_OVER_SECONDS = 1e-3  # that a batch takes from one process to another, roughly


def kind(record: Record) -> str:
    """What trains: cpu, cuda, or whatever else torch calls it (xpu, npu, hpu)."""
    return str(record.environment.get("device") or "cpu").partition(":")[0]


def on_device(record: Record) -> bool:
    return kind(record) != "cpu"


def only_cuda(record: Record) -> str | None:
    """Why something that torch has for CUDA alone does not apply here."""
    if not on_device(record):
        return NO_DEVICE
    return None if kind(record) == "cuda" else f"torch has it for CUDA, not for {kind(record)}"


def by_hand(record: Record) -> bool:
    """Whether the script updates its weights itself."""
    return record.step.unit == "backward"


def capability(record: Record) -> tuple[int, int]:
    found = record.environment.get("capability")
    if isinstance(found, (list, tuple)) and len(found) == 2:
        return int(found[0]), int(found[1])
    return (0, 0)


def is_older(record: Record, than: tuple[int, int]) -> bool:
    """Whether it is a GPU of an earlier generation; other devices are not counted in these."""
    return kind(record) == "cuda" and capability(record) < than


def script(record: Record) -> dict[str, Any]:
    """What the script does for speed by itself."""
    found = record.environment.get("script")
    return found if isinstance(found, dict) else {}


def exchange(record: Record) -> dict[str, Any]:
    """What DistributedDataParallel sends between ranks; empty where nothing is wrapped in it."""
    found = script(record).get("exchange")
    return found if isinstance(found, dict) else {}


def layers(record: Record) -> dict[str, int]:
    found = script(record).get("layers")
    return found if isinstance(found, dict) else {}


def compiles(record: Record) -> bool:
    return record.startup.compile_seconds is not None or "OptimizedModule" in layers(record)


def loader(record: Record) -> Loader | None:
    """The loader that fed most training."""
    return record.loaders[0] if record.loaders and record.loaders[0].trained else None


def waits_on_storage(record: Record) -> bool:
    """Whether what loads the samples mostly waits for them; False where that is not known.

    Workers that are done wait for no storage, however little they burn.
    """
    burning = record.input_cpu_share
    return burning is not None and burning < FETCHING_BELOW and not hands_over(record)


def restarts(record: Record) -> float:
    """The share of the time that goes to starting workers anew, where they could live on."""
    found = record.loaders[0] if record.loaders else None
    if found is None or found.workers == 0 or found.persistent_workers:
        return 0.0
    return (record.epoch_start_share or 0.0) if record.epoch_start_seconds is not None else 0.0


def starts_each_step(record: Record) -> bool:
    """Whether the training loader is started anew in each step."""
    return record.starting_share is not None and record.starting_share >= EACH_STEP


def leaves_iterators(record: Record) -> bool:
    """Whether a step starts the loader for a part of its batches, as `next(iter(loader))` does."""
    found, samples = loader(record), record.step.samples
    if found is None or not (found.batches and found.batch_size and samples):
        return False
    batches = samples / found.batch_size / max(1, len(record.ranks))
    return starts_each_step(record) and found.batches > 1 and batches <= found.batches / 2


def hands_over(record: Record) -> bool:
    """Whether training waits for workers that are done: for batches between two processes."""
    making, found = record.input_making_share, loader(record)
    return making is not None and making < MAKING_BELOW and found is not None and found.workers > 0


def waits_briefly(record: Record) -> bool:
    """Whether a batch is there sooner than a worker could hand it over."""
    seconds = record.phases["input"].seconds
    return seconds is not None and seconds < HAND_OVER_SECONDS


def cores(record: Record) -> int:
    """Whole cores for each training process on this machine."""
    ranks = max(1, int(record.environment.get("world_size") or 1))
    return max(1, int(float(record.environment.get("cores") or 1) / ranks))


def share(verdict: Verdict, *names: str) -> float:
    return sum(verdict.shares.get(name, 0.0) for name in names)


def processor_flags(source: Path = Path("/proc/cpuinfo")) -> set[str]:
    try:
        lines = source.read_text().splitlines()
    except OSError:
        return set()
    line = next((line for line in lines if line.startswith(("flags", "Features"))), ":")
    return set(line.split(":", 1)[1].split())
