"""Whether a data set is still the one it was: what a script sets on it makes other samples of it.

Noted is what the data set holds, and what its transforms, its options, the data sets inside it and
other objects hold: numbers and words by their value, tensors with how often they were written to,
small arrays by their content, other things by which they are. What long lists and arrays hold, and
what is inside the entries of such a list, is compared where it is asked for: that takes
milliseconds, and with a million records about a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from hotlap.data.inside import Inside, Objects, Room, TooMany, groups_in
from hotlap.data.notes import PLAIN, Memory, Note, Several, holds_objects, notes

DEEPEST = 6
MOST = 500  # things that are noted, the nearest first: they are compared for each batch


class Noted:
    """`quickly`: what takes long to compare is not noted, and cannot be asked for."""

    unseen: str | None = None  # what holds more than can be compared

    def __init__(self, dataset: Any, *, quickly: bool = False) -> None:
        self._dataset = dataset
        self._own: set[str] = set()
        self._before: str | None = None
        self._contents: list[Note | Inside] = []
        self._take(None if quickly else self._contents)

    def change(self, *, closely: bool = False) -> str | None:
        """The name of something that is not what it was."""
        return self._before or next(self._changes(closely), None)

    def settle(self, *, closely: bool = False) -> bool:
        """What has changed by now is the data set's own doing: counters, files that were opened.

        It is not looked at any more. Answers whether there was something.
        """
        own = set(self._changes(closely))
        if own:
            self._own |= own
            self._take()
        return bool(own)

    def _changes(self, closely: bool) -> Iterator[str]:
        for note in [*self._notes, *self._contents] if closely else self._notes:
            for where in note.changes():
                if where not in self._own:
                    yield where

    def _take(self, contents: list[Note | Inside] | None = None) -> None:
        """What takes long to compare goes to `contents`, and all that is inside it."""
        self._notes: list[Note] = []
        found: deque[tuple[str, Any]] = deque([("", self._dataset)])
        seen: set[int] = set()
        far: dict[str, list[Any]] = {}
        while found and len(self._notes) < MOST:
            where, value = found.popleft()
            if self._is_passed_by(where, value) or id(value) in seen:
                continue
            seen.add(id(value))
            for note in notes(value, where):
                if note.is_quick():
                    self._notes.append(note)
                    found.extend(note.inside())
                elif contents is not None:
                    contents.append(note)
                    far.setdefault(where, []).extend(_held_by(note))
        if contents is not None:
            for where, value in found:
                far.setdefault(where.partition(".")[0], []).append(value)
            contents.extend(self._inside(far))

    def _inside(self, far: dict[str, list[Any]]) -> Iterator[Note | Inside]:
        room = Room()
        for where, values in far.items():
            groups: list[Any] = []
            try:
                groups.extend(groups_in(values, room))
            except TooMany:
                self.unseen = self.unseen or where or type(self._dataset).__name__
            if groups:
                yield Inside(where, groups)
            for group in groups:
                if isinstance(group, Objects):
                    yield from notes(type(group.members[0]), where)

    def _is_passed_by(self, where: str, value: Any) -> bool:
        if value is None or type(value) in PLAIN:  # is known to whoever holds it
            return True
        return where in self._own or where.count(".") > DEEPEST

    def __getstate__(self) -> dict[str, Any]:
        """Which object something is does not outlive a process: it is noted anew in the other."""
        return {"dataset": self._dataset, "own": self._own, "before": self.change()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._dataset, self._own, self._before = state["dataset"], state["own"], state["before"]
        self._contents = []
        self._take()


def _held_by(note: Note) -> list[Any]:
    """What is inside something that takes long to compare."""
    if isinstance(note, Several):
        return note.entries
    return [note.memory] if isinstance(note, Memory) and holds_objects(note.memory) else []
