"""How many samples a batch holds, whatever it is made of.

Types are asked, not objects: looking must not change a batch with a will of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MemberDescriptorType
from typing import Any
from weakref import WeakKeyDictionary

DEEPEST = 4
MOST = 16  # items of a list that are looked at
_widths: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # of modules' first layers


def samples_in(batch: Any, size: int | None = None) -> int | None:
    """The samples of a batch; `size` is what its loader was asked for. None where it is not clear.

    No batch holds more than that, the last one of an epoch may hold less.
    """
    plain = type(batch) in (list, tuple) and 0 < len(batch) < 3
    if plain and hasattr(type(batch[0]), "shape"):
        shape = batch[0].shape  # what most loaders hand out; the rest takes longer
        if len(shape) in (2, 4) and (size is None or shape[0] == size):
            return int(shape[0])
    likely = _likely(batch, 0)
    if size is None or likely == size:
        return likely
    found = set(_counts(batch, 0))
    if size in found:
        return size
    if likely is not None and likely < size:
        return likely
    fitting = [count for count in found if count < size]
    if not fitting and size > 1 and size in _seconds(batch, 0):
        return size  # time stands first
    return fitting[0] if len(fitting) == 1 else None


def innermost(sampler: Any) -> Any:
    """The sampler of batches in the midst of others: some hand out a share of another's batches."""
    for _ in range(DEEPEST):
        inner = getattr(sampler, "batch_sampler", None)
        if inner is None:
            break
        sampler = inner
    return sampler


def samples_passed(args: Iterable[Any], kwargs: dict[str, Any], module: Any = None) -> int | None:
    """The samples a model is called with: those of the first argument that has a number."""
    for argument in (*args, *kwargs.values()):
        found = samples_in(argument)
        if found is not None:
            return 1 if module is not None and _is_one(argument, module) else found
    return None


def _is_one(argument: Any, module: Any) -> bool:
    """Whether it is one sample by itself: a vector of as many features as the first layer takes."""
    if not hasattr(type(argument), "shape") or len(argument.shape) != 1:
        return False
    if not getattr(argument.dtype, "is_floating_point", False):
        return False  # indices
    width = _widths.get(module)
    if width is None:
        width = _widths[module] = _first_width(module)
    return bool(width == argument.shape[0])


def _first_width(module: Any) -> int:
    """The features its first layer takes; 0 where that is no linear one."""
    parts = (part for part in module.modules() if any(True for _ in part.parameters(recurse=False)))
    return getattr(next(parts, None), "in_features", 0)


def _likely(batch: Any, depth: int) -> int | None:
    """What is known without asking the loader: mostly the first dimension of the first tensor."""
    own = _own(batch)
    if own is not None or hasattr(type(batch), "shape") or depth > DEEPEST:
        return own
    a_list = isinstance(batch, (list, tuple)) and len(batch) > 0
    if a_list and _one_each(batch):
        return len(batch)
    for part in _parts(batch):
        found = _likely(part, depth + 1)
        if found is not None:
            return found
    return len(batch) if a_list else None


def _counts(batch: Any, depth: int) -> Iterator[int]:
    """Every number that could be the samples of the batch."""
    own = _own(batch)
    if own is not None:
        yield own
    elif depth <= DEEPEST:
        parts = list(_parts(batch))
        if isinstance(batch, (list, tuple)) and parts and _alike(parts[:MOST]):
            yield len(parts)
        for part in parts[:MOST]:
            yield from _counts(part, depth + 1)


def _seconds(batch: Any, depth: int) -> Iterator[int]:
    """The second dimension of every tensor."""
    if hasattr(type(batch), "shape"):
        yield from map(int, batch.shape[1:2])
    elif depth <= DEEPEST:
        for part in list(_parts(batch))[:MOST]:
            yield from _seconds(part, depth + 1)


def _own(batch: Any) -> int | None:
    """Of a tensor, an array, or sequences packed into one."""
    kind = type(batch)
    if hasattr(kind, "shape"):
        shape = batch.shape
        return int(shape[0]) if len(shape) else None
    if kind.__name__ == "PackedSequence":
        return int(batch.batch_sizes[0])  # those that are long enough for a first element
    return None


def _parts(batch: Any) -> Iterable[Any]:
    if isinstance(batch, dict):
        return dict.values(batch)
    if isinstance(batch, (list, tuple)):
        return batch
    # A dataclass, or a wrapper around a dict.
    return (*getattr(batch, "__dict__", {}).values(), *_in_slots(batch))


def _in_slots(batch: Any) -> Iterator[Any]:
    for kind in type(batch).__mro__:
        members = vars(kind)
        if "__slots__" in members:
            for member in members.values():
                if type(member) is MemberDescriptorType:
                    try:
                        yield member.__get__(batch, kind)
                    except AttributeError:  # never filled
                        continue


def _one_each(items: Any) -> bool:
    """Whether nobody has collated this list: it has one item for each sample."""
    if len(items) < 2:
        return False
    few = items[:MOST]
    if all(hasattr(type(item), "shape") for item in few):
        return _are_images(few) or _are_sequences(few)
    if not _alike(few):
        return False
    if all(isinstance(part, (int, float)) for item in few for part in _parts(item)):
        return len(tuple(_parts(items[0]))) > 0
    lengths = [_length(item) for item in few]
    if None not in lengths and len(set(lengths)) == 1:
        return False
    # A few lists of samples, or a sample each: a batch has more samples than a sample has parts.
    inner = items[0] if isinstance(items[0], (list, tuple)) else ()
    return len(inner) < 2 or not _alike(inner[:MOST]) or len(items) > len(inner)


def _are_images(items: Any) -> bool:
    """As detection scripts collate them: each is channels first."""
    shapes = [item.shape for item in items]
    return all(len(shape) == 3 and shape[0] in (1, 3, 4) for shape in shapes)


def _are_sequences(items: Any) -> bool:
    """Of different lengths, of the same thing."""
    if len(items) < 3 or not _alike(items) or not len(items[0].shape):
        return False
    shapes = [tuple(item.shape) for item in items]
    return len({shape[1:] for shape in shapes}) == 1 and len({shape[0] for shape in shapes}) > 1


def _alike(items: Any) -> bool:
    return len({_form(item) for item in items}) == 1


def _form(item: Any) -> tuple[Any, ...]:
    if hasattr(type(item), "shape"):
        return type(item), len(item.shape), getattr(item, "dtype", None)
    if isinstance(item, dict):
        return type(item), *dict.keys(item)
    if isinstance(item, tuple):
        return type(item), *map(type, item)
    if isinstance(item, list):
        return type(item), type(item[0]) if item else None
    return (type(item),)


def _length(item: Any) -> int | None:
    """Of an item that is a batch by itself: the one first dimension of all its tensors.

    Strings stay as they are when a batch is collated, so a list of them may be one as well.
    """
    parts = list(_parts(item))
    if parts and all(isinstance(part, str) for part in parts):
        return len(parts)
    if len(parts) < 2 or not all(hasattr(type(part), "shape") for part in parts):
        return None
    lengths = {part.shape[0] if len(part.shape) else None for part in parts}
    return lengths.pop() if len(lengths) == 1 else None
