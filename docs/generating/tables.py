"""The fields of frozen records as tables: type, unit and meaning of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec

from generating.pages import Missing

Meanings = Mapping[type[msgspec.Struct], Mapping[str, str]]


def fields(structs: Meanings, *, elsewhere: Mapping[type, str] | None = None) -> str:
    """A table for each struct; `elsewhere` names the page of structs that have theirs there."""
    parts = []
    for struct, meanings in structs.items():
        found = {field.name: field for field in msgspec.structs.fields(struct)}
        for name in found.keys() - meanings.keys():
            raise Missing(f"{struct.__name__}.{name} has no description in docs/generating/.")
        for name in meanings.keys() - found.keys():
            raise Missing(f"{struct.__name__}.{name} is described, but there is no such field.")
        parts.append(f"### {struct.__name__}\n")
        parts.append("| field | type | unit | meaning |\n|---|---|---|---|")
        for name, meaning in meanings.items():
            kind = _type(found[name].type, elsewhere or {})
            parts.append(f"| `{name}` | {kind} | {_unit(name)} | {meaning} |")
        parts.append("")
    return "\n".join(parts)


def complete(module: ModuleType, structs: Meanings, *, without: set[type]) -> None:
    """Every struct that is defined there has its table."""
    inside = {
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == module.__name__
    }
    for struct in inside - structs.keys() - without:
        raise Missing(f"{struct.__name__} has no description in docs/generating/.")


def _type(annotation: Any, elsewhere: Mapping[type, str]) -> str:
    """A list of Loader, number or null: as it is in JSON."""
    if annotation is Any:
        return "any"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        if issubclass(annotation, msgspec.Struct):
            name = annotation.__name__
            return f"[{name}]({elsewhere.get(annotation, '')}#{name.lower()})"
        return "null" if annotation is type(None) else names[annotation]
    inner = [_type(part, elsewhere) for part in annotation.__args__ if part is not Ellipsis]
    origin = getattr(annotation, "__origin__", None)
    if origin is tuple:
        return f"list of {inner[0]}"
    if origin is dict:
        return f"object of {inner[1]}"
    return " or ".join(inner)


def _unit(name: str) -> str:
    """Names carry their units, so the unit follows from the name."""
    for ending, unit in (
        ("read_bytes_per_second", "B/s"),
        ("samples_per_second", "1/s"),
        ("bytes_per_step", "B"),
        ("seconds_per_step", "s"),
        ("seconds", "s"),
        ("bytes", "B"),
        ("hertz", "Hz"),
        ("share", "0 to 1"),
        ("shares", "0 to 1"),
        ("gpu_busy", "0 to 1"),
    ):
        if name.endswith(ending):
            return unit
    return ""
