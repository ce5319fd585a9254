"""What is set in another way (versions, flags, loaders, optimizers): it may be the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotlap.comparisons import Change
from hotlap.records import Loader, Optimizer, Profile
from hotlap.reports import machine, wording

NOTHING = wording.NOTHING
UNTOLD = ("GPU id", "memory", "shared memory (/dev/shm)")  # of one kind of machine they differ, too
LOADER = ("workers", "batch_size", "prefetch_factor", "pin_memory", "persistent_workers", "sampler")
OPTIMIZER = ("name", "fused", "foreach")
SCRIPT = {
    "autocast": "autocast",
    "scaler": "GradScaler",
    "cudnn_benchmark": "cudnn.benchmark",
    "matmul_precision": "float32 matmul precision",
    "types": "types of the parameters",
    "layers": "layers",
}


def of_profiles(before: Profile, after: Profile) -> tuple[Change, ...]:
    return (
        *different("command", wording.command(before.command), wording.command(after.command)),
        *of_machines(before.environment, after.environment),
        *_of_scripts(before, after),
        *_of_loaders(_training(before), _training(after)),
        *_of_optimizers(before.optimizers, after.optimizers),
    )


def different(name: str, before: Any, after: Any) -> Iterator[Change]:
    """A change where the two do not read the same."""
    ours, theirs = _word(before), _word(after)
    if ours != theirs:
        yield Change(name=name, before=ours, after=theirs)


def of_machines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    ours, theirs = dict(machine.described(before)), dict(machine.described(after))
    for name in dict.fromkeys([*ours, *theirs]):
        if name not in UNTOLD:
            yield from different(name, ours.get(name), theirs.get(name))


def _of_scripts(before: Profile, after: Profile) -> Iterator[Change]:
    ours, theirs = before.environment.get("script") or {}, after.environment.get("script") or {}
    yield from different("model", before.models, after.models)
    for key, name in SCRIPT.items():
        if key in ours and key in theirs:  # a run too short for it has none of them
            yield from different(name, ours[key], theirs[key])


def _training(profile: Profile) -> list[Loader]:
    return [one for one in profile.loaders if one.trained]


def _of_loaders(before: Sequence[Loader], after: Sequence[Loader]) -> Iterator[Change]:
    yield from different("training loaders", len(before), len(after))
    for ours, theirs in _paired(before, after):
        name = f"loader of {ours.dataset}"
        yield from different("data set", ours.dataset, theirs.dataset)
        for key in LOADER:
            yield from different(
                f"{name}: {key.replace('_', ' ')}", getattr(ours, key), getattr(theirs, key)
            )


def _paired(before: Sequence[Loader], after: Sequence[Loader]) -> Iterator[tuple[Loader, Loader]]:
    """Those of one data set, whatever their order; then what is left, one by one."""
    left, others = list(after), []
    for ours in before:
        same = next((one for one in left if one.dataset == ours.dataset), None)
        if same is None:
            others.append(ours)
        else:
            left.remove(same)
            yield ours, same
    yield from zip(others, left, strict=False)


def _of_optimizers(before: Sequence[Optimizer], after: Sequence[Optimizer]) -> Iterator[Change]:
    yield from different("optimizers", len(before), len(after))
    for ours, theirs in zip(before, after, strict=False):
        for key in OPTIMIZER:
            name = "optimizer" if key == "name" else f"{theirs.name}: {key}"
            yield from different(name, getattr(ours, key), getattr(theirs, key))


def _word(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or NOTHING
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or NOTHING
    return str(value)
