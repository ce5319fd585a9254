"""A recipe: which optimizations, with which settings. A small TOML file to read, edit, commit.

# 1.84x (1.79-1.90) on train.py
schema = 1

[compile]
mode = "reduce-overhead"

[loader-workers]
workers = 8
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap import optimizations
from hotlap.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 1
FILE = "hotlap.toml"
Settings = dict[str, Any]
COMPILED = ("compile", "memory-budget")  # the second one is where the script compiles, too
SEEN_BY_COMPILER = (
    *(*COMPILED, "channels-last", "precision-bf16", "precision-fp16"),
    *("batch-size", "gradient-accumulation"),
)


@dataclass(frozen=True)
class Recipe:
    """Optimizations by name, each with its settings. Empty: the command as it is."""

    changes: Mapping[str, Settings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = [one.NAME for one in optimizations.known() if one.NAME in self.changes]
        ordered = [*known, *(name for name in self.changes if name not in known)]
        object.__setattr__(self, "changes", {name: dict(self.changes[name]) for name in ordered})

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def key(self) -> str:
        """What makes two recipes the same one."""
        return json.dumps(self.changes, sort_keys=True)

    @property
    def compiled(self) -> str:
        """What the compiler's cache knows this recipe by; empty where nothing is compiled."""
        if not any(name in self.changes for name in COMPILED):
            return ""
        parts = {name: self.changes[name] for name in SEEN_BY_COMPILER if name in self.changes}
        return json.dumps(parts, sort_keys=True)

    @property
    def fills(self) -> str:
        """What its caches are known by; empty where it fills none.

        The first run with them fills them, and its steps are not those of later epochs.
        """
        parts = {
            name: settings
            for name, settings in self.changes.items()
            if getattr(optimizations.named(name), "FILLS", False)
        }
        return json.dumps(parts, sort_keys=True) if parts else ""

    def having(self, name: str, settings: Settings) -> Recipe:
        """With this optimization, what it needs, and without what it cannot stand."""
        _check(name, settings, "the recipe")
        one = optimizations.named(name)
        wanted = dict(self.changes)
        wanted[name] = dict(settings)
        for need in one.NEEDS:
            wanted.setdefault(need, {})
        for other in list(wanted):
            conflicts = other in one.CONFLICTS or name in optimizations.named(other).CONFLICTS
            if other != name and conflicts:
                del wanted[other]
        return Recipe(wanted)

    def without(self, name: str) -> Recipe:
        """Without this optimization, and without those that need it."""
        kept = {
            other: settings
            for other, settings in self.changes.items()
            if other != name and name not in optimizations.named(other).NEEDS
        }
        return Recipe(kept)

    def label(self) -> str:
        """In a few words: `compile reduce-overhead + loader-workers 8`."""
        parts = [
            " ".join([name, *(str(value) for value in settings.values())])
            for name, settings in self.changes.items()
        ]
        return " + ".join(parts) or "baseline"

    def to_toml(self, *comments: str) -> str:
        lines = [f"# {_printable(line)}" for text in comments for line in text.splitlines()]
        lines.append(f"schema = {SCHEMA}")
        for name, settings in self.changes.items():
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        return "\n".join(lines) + "\n"

    def save(self, path: str | os.PathLike[str], *comments: str) -> None:
        """Whole or not at all; through a link, not over it."""
        file = Path(os.path.realpath(path))
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            temporary.write_text(self.to_toml(*comments), encoding="utf-8")
            temporary.replace(file)
        except OSError as problem:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise UsageError(f"{file} cannot be written: {problem.strerror}.") from problem

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recipe:
        file = Path(path)
        if not os.fspath(path):
            raise UsageError(f"The recipe's path is empty. Give a file, such as {FILE}.")
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as problem:
            raise UsageError(
                f"The recipe {file} cannot be read: {problem.strerror}. Check the path."
            ) from problem
        except UnicodeDecodeError as problem:
            line = problem.object.count(b"\n", 0, problem.start) + 1
            raise UsageError(
                f"The recipe {file} is not UTF-8 text: byte {problem.object[problem.start]:#04x} "
                f"in line {line}. Save it as UTF-8."
            ) from problem
        except (ValueError, RecursionError) as problem:  # of TOML, of text, of very long numbers
            raise UsageError(
                f"The recipe {file} is not TOML: {problem}. Correct it there: each line is a "
                "comment, a [name] or a setting like workers = 2."
            ) from problem
        return cls.of(content, source=str(file))

    @classmethod
    def of(cls, content: Mapping[str, Any], *, source: str = "the recipe") -> Recipe:
        """Checks every name and value: a recipe may have been edited by hand."""
        content = dict(content)
        version = content.pop("schema", SCHEMA)
        if type(version) is not int or version != SCHEMA:
            newer = type(version) is int and version > SCHEMA
            move = "Upgrade hotlap." if newer else f"Write schema = {SCHEMA}, or leave it out."
            raise UsageError(f"{source} has schema {version!r}, this hotlap reads {SCHEMA}. {move}")
        for name, settings in content.items():
            _check(name, settings, source)
        recipe = cls(content)
        for name in recipe.changes:
            one = optimizations.named(name)
            clash = next((other for other in one.CONFLICTS if other in recipe.changes), None)
            if clash is not None:
                raise UsageError(f"{source} has both {name} and {clash}; keep one of them.")
            missing = next((other for other in one.NEEDS if other not in recipe.changes), None)
            if missing is not None:
                raise UsageError(f"{source}: {name} needs {missing}. Add [{missing}].")
        return recipe

    def apply(self, model: Any = None, optimizer: Any = None, loader: Any = None) -> Any:
        """For those who own their training loop: (model, optimizer, loader), changed by it.

        The model and the optimizer are changed in place; a loader is made anew where it has to be.
        What needs the start of the process (threads, allocator) is in `hotlap run` alone.
        """
        from hotlap.optimizations.applying import apply

        checked = Recipe.of(self.changes)
        return apply(dict(checked.changes), model, optimizer, loader)


def check_names(names: Iterable[str], *, option: str) -> None:
    known = [one.NAME for one in optimizations.known()]
    for name in names:
        if name not in known:
            move = optimizations.near(name)
            raise UsageError(f"{option} {name}: there is no such optimization.{move}")


def _printable(line: str) -> str:
    """A command may hold characters that TOML does not take, or that are no text at all."""
    shown = re.sub(r"[\x00-\x08\x0a-\x1f\x7f]", "?", line)
    return shown.encode("utf-8", "replace").decode("utf-8")


def _short(value: Any) -> str:
    """As much of it as fits into a sentence."""
    try:
        shown = repr(value)
    except ValueError:  # Python does not write out numbers of thousands of digits
        return "a very long number"
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


def _check(name: str, settings: Any, source: str) -> None:
    known = [one.NAME for one in optimizations.known()]
    if name not in known:
        raise UsageError(
            f"{source} names {name}, which is no optimization.{optimizations.near(name)}"
        )
    if not isinstance(settings, dict):
        raise UsageError(f"{source}: {name} must be a table, like [{name}].")
    one = optimizations.named(name)
    allowed = one.SETTINGS
    for key in settings:  # before what is missing: it may be that, mistyped
        if key not in allowed:
            has = f"It has {', '.join(allowed)}." if allowed else "It has none."
            raise UsageError(f"{source}: {name} has no setting {key}. {has}")
    for key in getattr(one, "REQUIRED", ()):
        if key not in settings:
            raise UsageError(f"{source}: {name} needs {key}. Add a line like {key} = 2.")
    for key, value in settings.items():
        choices = allowed[key]
        if choices is int:
            least, most = optimizations.bounds(one, key)
            if type(value) is not int or not least <= value <= most:
                must = f"a whole number from {least} to {most}"
                raise UsageError(
                    f"{source}: {_of(key, name)} is {_short(value)}; it must be {must}."
                )
        elif value not in choices:
            words = ", ".join(map(str, choices))
            raise UsageError(f"{source}: {_of(key, name)} is {value!r}; it is one of {words}.")


def _of(setting: str, name: str) -> str:
    """`workers of loader-workers`, and `threads` where both are called so."""
    return setting if setting == name else f"{setting} of {name}"
