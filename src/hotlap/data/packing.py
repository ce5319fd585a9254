"""Samples as bytes and back, without pickle: a cache from elsewhere must not run code.

A packed sample is a short JSON text that says how it is built, and its values behind it. Samples of
one data set are built alike, so the text is parsed once and then recognised. What is unpacked is
always a copy: changing it does not change the cache.

Tensors, numpy arrays and numbers, bytes, strings, PIL images, numbers, None, and lists, tuples and
dicts of these.
"""

from __future__ import annotations

import ctypes
import functools
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from hotlap import origins
from hotlap.data.strides import Strides, outermost_first, unusual

LENGTH = struct.Struct("<I")
SIZE = struct.Struct("<Q")
NUMBER = {"int": struct.Struct("<q"), "float": struct.Struct("<d")}
COMPLEX = struct.Struct("<dd")
LAID = "laid"  # before the plan of what lies in memory in another order than the usual one
NESTS: dict[type, str] = {list: "list", tuple: "tuple"}
PLAIN = frozenset(
    name
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
    if hasattr(torch, name)
)
# Of what Pillow notes about an image: what decides which colours it has and which way is up.
ABOUT = ("transparency", "exif", "xmp", "Raw profile type exif", "icc_profile")
LONGEST_KEPT, MOST_KEPT = 1000, 512  # bytes of a plan's text, and readers
Plan = Any  # what the JSON text says


class CannotPack(TypeError):
    """A value of a kind that is not kept in caches."""


@dataclass(frozen=True)
class Finished:
    """A sample of a data set with a transform to which nothing of that is to be applied."""

    sample: Any


def pack(sample: Any) -> bytes:
    parts: list[bytes] = []
    try:
        text = json.dumps(_plan(sample, parts, "sample"), separators=(",", ":")).encode()
    except RecursionError:
        told = f"sample is a {type(sample).__qualname__} that is nested too deep, or holds itself"
        raise CannotPack(f"{told}, which cannot be kept in a cache") from None
    return b"".join((LENGTH.pack(len(text)), text, *parts))


def unpack(packed: bytes | bytearray | memoryview) -> Any:
    """Raises ValueError where the bytes are not what `pack` makes."""
    view = memoryview(packed)
    try:
        start = LENGTH.size
        end = start + LENGTH.unpack_from(view)[0]
        text = bytes(view[start:end])
        if len(text) != end - start:
            raise ValueError("it is cut off")
        cursor = _Cursor(view, end)
        sample = _reader(text)(cursor)
    except (struct.error, KeyError, TypeError, IndexError, RecursionError) as problem:
        raise ValueError(f"these bytes are no packed sample: {problem}") from problem
    if cursor.at != len(view):
        raise ValueError(f"{len(view) - cursor.at} bytes more than a packed sample has")
    return sample


# Packing -------------------------------------------------------------------------------------


def _plan(value: Any, parts: list[bytes], where: str) -> Plan:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _number(value, parts)
    if kind is complex:
        parts.append(COMPLEX.pack(value.real, value.imag))
        return "complex"
    if kind is str or kind is bytes:
        content = value.encode("utf-8", "surrogatepass") if kind is str else value
        parts += (SIZE.pack(len(content)), content)
        return kind.__name__
    if kind in NESTS:
        alike = _alike(value, parts)
        if alike is not None:
            return [NESTS[kind], alike]
        inside = [_plan(one, parts, f"{where}[{at}]") for at, one in enumerate(value)]
        return [NESTS[kind], inside]
    if kind is dict:
        return [
            "dict",
            _keys(value, where),
            [_plan(value[k], parts, f"{where}[{k!r}]") for k in value],
        ]
    if isinstance(value, torch.Tensor):
        return _tensor(value, parts, where)
    if kind is Finished:
        return ["finished", _plan(value.sample, parts, where)]
    library = origins.library(kind)
    if library == "numpy":
        return _array(value, parts, where)
    if library == "PIL":
        return _image(value, parts, where)
    raise _unknown(value, where)


def _unknown(value: Any, where: str) -> CannotPack:
    kind = f"{origins.module(type(value))}.{type(value).__qualname__}"
    return CannotPack(
        f"{where} is of type {kind}, which cannot be kept in a cache; tensors, numpy arrays, "
        "bytes, strings, PIL images, numbers, None, and lists, tuples and dicts of them can"
    )


def _number(value: int | float, parts: list[bytes]) -> Plan:
    name = type(value).__name__
    try:
        parts.append(NUMBER[name].pack(value))
    except struct.error:  # an integer of more than 64 bits
        content = hex(value).encode()  # type: ignore[arg-type]
        parts += (SIZE.pack(len(content)), content)
        return "hex"
    return name


def _alike(values: Any, parts: list[bytes]) -> str | None:
    """Many numbers of one kind, such as token ids: said once, or the plan would outgrow them."""
    kinds = set(map(type, values))
    name = kinds.pop().__name__ if len(kinds) == 1 else ""
    if name not in NUMBER:
        return None
    try:
        content = struct.pack(f"<{len(values)}{NUMBER[name].format[-1]}", *values)
    except struct.error:  # one of more than 64 bits
        return None
    parts += (SIZE.pack(len(content)), content)
    return name


def _keys(value: dict[Any, Any], where: str) -> list[Any]:
    for key in value:
        if type(key) not in (str, int):
            raise _unknown(key, f"a key of {where}")
    return list(value)


def _tensor(value: torch.Tensor, parts: list[bytes], where: str) -> Plan:
    name = str(value.dtype).removeprefix("torch.")
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise _unknown(value, where)
    layout = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
    if layout != "strided" or value.is_meta:
        kind = "without memory (meta)" if value.is_meta else f"of the layout {layout}"
        raise CannotPack(f"{where} is a tensor {kind}, which cannot be kept in a cache")
    if name not in PLAIN or value.is_quantized:
        raise CannotPack(f"{where} is a tensor of {name}, which cannot be kept in a cache")
    if value.requires_grad:  # a gradient has to reach the one it is taken for, not a copy
        raise CannotPack(f"{where} is a tensor that requires a gradient: it cannot be kept")
    shape, laid = value.shape, None
    if not value.is_contiguous() or 1 in shape:
        laid = unusual(tuple(shape), value.stride())
        value = value if laid is None else value.permute(outermost_first(laid))
    whole = value.cpu().contiguous()
    if whole.is_conj() or whole.is_neg():
        whole = whole.resolve_conj().resolve_neg()
    parts.append(_bytes_of(whole))
    plan = ["tensor", name, list(shape)]
    return plan if laid is None else [LAID, *plan, laid]


def _bytes_of(whole: torch.Tensor) -> bytes:
    if not whole.numel():
        return b""
    return ctypes.string_at(whole.data_ptr(), whole.numel() * whole.element_size())


def _array(value: Any, parts: list[bytes], where: str) -> Plan:
    numpy = import_module("numpy")
    scalar = isinstance(value, numpy.generic)
    if not scalar and type(value) not in (numpy.ndarray, numpy.memmap):
        raise _unknown(value, where)
    if value.dtype.hasobject or value.dtype.names:
        raise CannotPack(f"{where} is an array of {value.dtype}, which cannot be kept in a cache")
    shape, laid = value.shape, None
    if not scalar and value.nbytes and (not value.flags.c_contiguous or 1 in shape):
        laid = _laid(value)
        value = value if laid is None else value.transpose(outermost_first(laid))
    parts.append(value.tobytes() if value.nbytes else b"")  # an empty text gives a zero
    plan = ["scalar" if scalar else "array", value.dtype.str, list(shape)]
    return plan if laid is None else [LAID, *plan, laid]


def _laid(array: Any) -> Strides | None:
    parts = [divmod(one, array.itemsize) for one in array.strides]
    if any(rest for _, rest in parts):
        return None
    return unusual(array.shape, tuple(whole for whole, _ in parts))


def _image(value: Any, parts: list[bytes], where: str) -> Plan:
    image = import_module("PIL.Image")
    if not isinstance(value, image.Image):
        raise _unknown(value, where)
    content = value.tobytes()  # reads the file, if that has not been done
    tint = getattr(value.palette, "mode", "RGB")
    palette = bytes(value.getpalette(tint) or ()) if value.mode in ("P", "PA") else b""
    parts += (SIZE.pack(len(palette)), palette, SIZE.pack(len(content)), content)
    about = {name: value.info[name] for name in ABOUT if name in value.info}
    return ["image", value.mode, list(value.size), tint, _plan(about, parts, f"{where}.info")]


# Unpacking -----------------------------------------------------------------------------------


class _Cursor:
    def __init__(self, view: memoryview, at: int) -> None:
        self._view = view
        self.at = at

    def take(self, size: int) -> memoryview:
        end = self.at + size
        if size < 0 or end > len(self._view):
            raise ValueError("it is cut off")
        taken = self._view[self.at : end]
        self.at = end
        return taken

    def sized(self) -> memoryview:
        return self.take(SIZE.unpack(self.take(SIZE.size))[0])


Reader = Callable[[_Cursor], Any]


def _reader(text: bytes) -> Reader:
    """What reads samples that are built as the text says; of short texts it is kept.

    Each process has its own, outside of every budget: long texts, which hardly come twice, are not
    worth that.
    """
    return _kept_reader(text) if len(text) <= LONGEST_KEPT else _new_reader(text)


@functools.lru_cache(maxsize=MOST_KEPT)
def _kept_reader(text: bytes) -> Reader:
    return _new_reader(text)


def _new_reader(text: bytes) -> Reader:
    try:
        return _read(json.loads(text))
    except ValueError as problem:
        raise ValueError(f"these bytes are no packed sample: {problem}") from problem


def _read(plan: Plan) -> Reader:
    if plan is None or isinstance(plan, bool):
        return lambda cursor: plan
    if isinstance(plan, str):
        return _VALUES[plan]
    kind, *rest = plan
    if kind == "finished":
        whole = _read(rest[0])
        return lambda cursor: Finished(whole(cursor))
    if kind == "dict":
        keys, inside = rest[0], [_read(one) for one in rest[1]]
        if len(keys) != len(inside):
            raise ValueError("a dict with more keys than values")
        return lambda cursor: {key: read(cursor) for key, read in zip(keys, inside, strict=True)}
    if kind in ("list", "tuple"):
        make = list if kind == "list" else tuple
        if isinstance(rest[0], str):
            letter = NUMBER[rest[0]].format[-1]
            return lambda cursor: make(_numbers(cursor.sized(), letter))
        inside = [_read(one) for one in rest[0]]
        return lambda cursor: make([read(cursor) for read in inside])
    if kind == LAID:
        kind, *rest = rest
    name, shape, *more = rest
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"a shape of {shape}")
    if kind == "image":
        return _images(name, tuple(shape), *more)
    laid = _checked(tuple(shape), *more) if more else None
    if kind == "tensor":
        return _tensors(name, tuple(shape), laid)
    return {"array": _arrays, "scalar": _arrays}[kind](name, tuple(shape), laid, kind == "scalar")


def _checked(shape: tuple[int, ...], laid: list[int]) -> Strides:
    """Or a cache from elsewhere could have memory read that is not the sample's."""
    found = tuple(laid)
    if not all(type(one) is int for one in found) or unusual(shape, found) != found:
        raise ValueError(f"strides of {laid}")
    return found


def _numbers(content: memoryview, letter: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{len(content) // 8}{letter}", content)


def _tensors(name: str, shape: tuple[int, ...], laid: Strides | None) -> Reader:
    if name not in PLAIN:
        raise ValueError(f"a tensor of {name}")
    dtype = getattr(torch, name)
    size = functools.reduce(int.__mul__, shape, 1) * dtype.itemsize

    def read(cursor: _Cursor) -> torch.Tensor:
        if not size:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(cursor.take(size)), dtype=dtype).reshape(shape)

    def read_laid(cursor: _Cursor) -> torch.Tensor:
        return torch.frombuffer(bytearray(cursor.take(size)), dtype=dtype).as_strided(shape, laid)

    return read if laid is None else read_laid


def _arrays(name: str, shape: tuple[int, ...], laid: Strides | None, scalar: bool) -> Reader:
    numpy = import_module("numpy")
    dtype = numpy.dtype(name)
    if dtype.hasobject or dtype.names:
        raise ValueError(f"an array of {name}")
    size = functools.reduce(int.__mul__, shape, 1) * dtype.itemsize

    def read(cursor: _Cursor) -> Any:
        if not size:  # of no entries, or of empty texts
            return numpy.zeros(shape, dtype)[() if scalar else ...]
        array = numpy.frombuffer(bytearray(cursor.take(size)), dtype).reshape(shape)
        return array[()] if scalar else array

    def read_laid(cursor: _Cursor) -> Any:
        strides = [one * dtype.itemsize for one in laid or ()]
        return numpy.ndarray(shape, dtype, bytearray(cursor.take(size)), 0, strides)

    return read if laid is None else read_laid


def _images(mode: str, size: tuple[int, ...], tint: str, about: Plan) -> Reader:
    image, describe = import_module("PIL.Image"), _read(about)

    def read(cursor: _Cursor) -> Any:
        palette = bytes(cursor.sized())
        found = image.frombytes(mode, size, bytes(cursor.sized()))
        found.info.update(describe(cursor))
        if palette:
            found.putpalette(palette, tint)
        return found

    return read


_VALUES: dict[str, Reader] = {
    "int": lambda cursor: NUMBER["int"].unpack(cursor.take(8))[0],
    "float": lambda cursor: NUMBER["float"].unpack(cursor.take(8))[0],
    "complex": lambda cursor: complex(*COMPLEX.unpack(cursor.take(16))),
    "digits": lambda cursor: int(bytes(cursor.sized())),  # in caches of before
    "hex": lambda cursor: int(bytes(cursor.sized()), 16),
    "str": lambda cursor: bytes(cursor.sized()).decode("utf-8", "surrogatepass"),
    "bytes": lambda cursor: bytes(cursor.sized()),
}


def leaves(sample: Any) -> Iterator[Any]:
    """What stands in a nest of lists, tuples and dicts."""
    if isinstance(sample, dict):
        sample = list(sample.values())
    if isinstance(sample, (list, tuple)):
        for one in sample:
            yield from leaves(one)
    else:
        yield sample
