"""What an object is and holds, in terms that JSON has: the same in every process that has it."""

from __future__ import annotations

import array
import collections
import ctypes
import dataclasses
import enum
import functools
import gc
import hashlib
import io
import json
import operator
import os
import sys
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import PurePath
from typing import Any

import torch

from hotlap import origins
from hotlap.data.packing import CannotPack, pack

LARGEST = 1 << 24  # bytes of a tensor that are read at once
MAPPED = 1 << 30  # bytes of a file mapped as an array, above which it is known by its name and age
LOOKED_INTO = ("argparse", "types", "collections")  # of the standard library's objects
# Open files, connections, bars: what they say is not the same tomorrow. And what has its own way.
ASIDE = frozenset(
    (
        *(
            "h5py",
            "lmdb",
            "tables",
            "netCDF4",
            "pyarrow",
            "tqdm",
            "wandb",
            "fsspec",
            "s3fs",
            "gcsfs",
        ),
        *("boto3", "botocore", "google", "requests", "urllib3", "httpx", "aiohttp"),
        *("numpy", "pandas", "PIL"),
    )
)
BY_TEXT = ("datetime", "decimal", "fractions", "uuid", "re", "zoneinfo", "ipaddress")
KEPT: Any = type(functools.cache(len))  # a function whose answers are kept
FUNCTIONS = (
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType),
    *(functools.partial, KEPT, operator.itemgetter, operator.attrgetter, operator.methodcaller),
)


def kind(value: Any) -> str:
    """By its name; the script has another one in processes that it spawns."""
    known = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    module = getattr(known, "__module__", "")
    return f"{'__main__' if module == '__mp_main__' else module}.{known.__qualname__}"


def held(value: Any) -> dict[str, Any]:
    """Its attributes by name, without asking properties."""
    made_by: Any = type(value)
    found = {name: getattr(value, name) for name in _slots(made_by) if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    return {name: one for name, one in found.items() if not ("pid" in name and _is_own_pid(one))}


@functools.lru_cache(maxsize=1000)
def _slots(made_by: type) -> tuple[str, ...]:
    given = [vars(base).get("__slots__", ()) for base in made_by.__mro__]
    return tuple(
        name for slots in given for name in ((slots,) if isinstance(slots, str) else slots)
    )


def _is_own_pid(value: Any) -> bool:
    return type(value) is int and value == os.getpid()


def is_opaque(value: Any) -> bool:
    """Whether there are no attributes to look into: not data sets, transforms and options."""
    made_by: Any = type(value)
    return _makes_opaque(made_by)


@functools.lru_cache(maxsize=1000)
def _makes_opaque(made_by: Any) -> bool:
    if issubclass(
        made_by, (type, list, tuple, dict, torch.Tensor, enum.Enum, PurePath, *FUNCTIONS)
    ):
        return True
    library = origins.library(made_by)
    if library in LOOKED_INTO or dataclasses.is_dataclass(made_by):
        return issubclass(made_by, collections.deque)
    if library in ASIDE or library in sys.stdlib_module_names:
        return True
    if library == "hotlap" and not {"__getitem__", "__call__"} & set(dir(made_by)):
        return True  # what caches and loaders are made of, not what they hold
    return not made_by.__dictoffset__ and not _slots(made_by)


class Telling:
    """What json cannot say by itself. An object that was told already is told by its number."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[int, Any]] = {}  # the object too: it must stay where it is

    def __call__(self, value: Any) -> Any:
        a_function = isinstance(value, FUNCTIONS)
        if not a_function and is_opaque(value):
            return _value(value)
        if id(value) in self._told:
            return ["told", self._told[id(value)][0]]
        self._told[id(value)] = len(self._told), value
        if a_function:
            return _function(value)
        return [kind(value), dict(sorted(held(value).items()))]


def _value(value: Any) -> Any:
    library = origins.library(type(value))
    if library == "numpy" and _is_mixed(getattr(value, "dtype", None)):
        return [kind(value), list(value.shape), str(value.dtype), value.tolist()]
    if library == "numpy":
        return _of_numpy(value)
    if isinstance(value, torch.Tensor):
        return content(value)
    if library == "PIL":
        return content(value) if getattr(value, "fp", None) is None else str(value.filename)
    if library == "pandas" and hasattr(value, "to_numpy"):
        columns = list(map(str, getattr(value, "columns", ())))
        return [kind(value), columns, value.to_numpy().tolist()]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(one, default=Telling(), check_circular=False) for one in value)
    if isinstance(value, slice):
        return ["slice", value.start, value.stop, value.step]
    if isinstance(value, (bytes, bytearray, array.array)):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, memoryview):
        return [value.format, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, io.BytesIO):
        return hashlib.sha256(value.getbuffer()).hexdigest()
    if isinstance(value, (collections.deque, types.MappingProxyType)):
        return dict(value) if isinstance(value, types.MappingProxyType) else list(value)
    if isinstance(value, (PurePath, enum.Enum, torch.dtype, torch.device)):
        return str(value)
    if library in BY_TEXT or isinstance(value, complex):
        return repr(value)
    return kind(value) if isinstance(value, type) or hasattr(value, "__qualname__") else None


def _of_numpy(value: Any) -> Any:
    """An array, or something else that is numpy's: a type, a mask with it, a function for all."""
    if hasattr(value, "pyfunc"):
        return [kind(value), value.pyfunc, value.otypes, value.signature]
    if hasattr(value, "newbyteorder") and not hasattr(value, "tobytes"):
        return [kind(value), repr(value)]
    if hasattr(value, "filled"):
        return [kind(value), content(value.data), content(value.mask)]
    return content(value)


def _is_mixed(dtype: Any) -> bool:
    """Of a numpy array of objects or records, whose memory says nothing."""
    return bool(getattr(dtype, "hasobject", False) or getattr(dtype, "names", None))


def _function(function: Any) -> Any:
    """With what it was given when it was made; the globals it uses are not looked at."""
    if isinstance(function, functools.partial):
        return ["partial", function.func, function.args, function.keywords]
    if isinstance(function, KEPT):
        return ["kept", function.__wrapped__]
    if isinstance(function, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
        return ["operator", *function.__reduce__()]
    if isinstance(function, types.MethodType):
        return [kind(function), function.__self__, function.__func__]
    if isinstance(function, types.BuiltinFunctionType):
        return kind(function)
    cells = [gc.get_referents(cell) for cell in function.__closure__ or ()]
    return [kind(function), *_code(function.__code__), cells, function.__defaults__]


def _code(code: types.CodeType) -> Iterator[Any]:
    yield from (code.co_code, code.co_names)
    for one in code.co_consts:
        yield list(_code(one)) if isinstance(one, types.CodeType) else one


def content(value: Any) -> Any:
    """Of a tensor or array: all of it. Of an image as well."""
    if isinstance(value, torch.Tensor) and value.layout == torch.sparse_coo:
        known = value.detach().coalesce()
        return [list(value.shape), content(known.indices()), content(known.values())]
    whole = hashlib.sha256()
    try:
        if hasattr(value, "_mmap") and value.nbytes > MAPPED:
            return _mapped(value)
        for piece in _pieces(value):
            whole.update(_memory(piece))
    except (CannotPack, RuntimeError, OSError, TypeError):  # sparse, nested, of objects, gone
        return [kind(value), str(getattr(value, "dtype", ""))]
    about = [list(getattr(value, "shape", ())), str(getattr(value, "dtype", ""))]
    return [*about, whole.hexdigest()]


def _memory(piece: Any) -> bytes | memoryview:
    """Its bytes where they lie, if they can be had so: a copy takes longer than the sum."""
    if type(piece) is torch.Tensor and _lies_flat(piece):
        found: Any = (ctypes.c_uint8 * piece.nbytes).from_address(piece.data_ptr())
        return memoryview(found).cast("B")
    if hasattr(piece, "ctypes") and piece.flags.c_contiguous and piece.dtype.kind in "buifc":
        return memoryview(piece).cast("B")
    return pack(piece.detach() if isinstance(piece, torch.Tensor) else piece)


def _lies_flat(tensor: torch.Tensor) -> bool:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_nested:
        return False
    turned = tensor.is_conj() or tensor.is_neg() or tensor.is_quantized
    return tensor.is_contiguous() and tensor.numel() > 0 and not turned


def _pieces(value: Any) -> Iterator[Any]:
    """Along its first dimension, so that no large copies are made."""
    if getattr(value, "nbytes", 0) <= LARGEST or not len(value.shape):
        yield value
    elif len(value) == 1:
        yield from _pieces(value[0])
    else:
        rows = max(1, len(value) * LARGEST // value.nbytes)
        for at in range(0, len(value), rows):
            yield from _pieces(value[at : at + rows])


def _mapped(value: Any) -> Any:
    """A file of which reading all would take minutes, and which part of it."""
    found, numpy = os.stat(value.filename), import_module("numpy")
    whole = numpy.frombuffer(value._mmap, "u1")
    start = value.offset + _address(value) - _address(whole)
    told = [str(value.filename), found.st_size, found.st_mtime_ns, start]
    return [told, list(value.shape), list(value.strides), value.dtype.str]


def _address(numbers: Any) -> int:
    return int(numbers.__array_interface__["data"][0])
