"""Whose loop it is: where a library runs it, the script's line that calls it is outside of it.

Such a line is in every stack that is looked at, and says nothing of where the time goes.
"""

from __future__ import annotations

from types import CodeType

from hotlap.probes import places

Frame = tuple[CodeType, int | None]
DEEPEST = 200  # frames looked at, from the innermost one


class Driver:
    """The frames that all stacks of a window have in common; the last of them is the loop's.

    It begins with the stack at the end of a step, so that one long call alone is no loop.
    """

    def __init__(self, stack: list[Frame]) -> None:
        self._common = stack[::-1] if len(stack) < DEEPEST else []  # the outermost first

    def meet(self, stack: list[Frame]) -> None:
        if len(stack) == DEEPEST:
            return  # its outermost frames are not known
        common = self._common
        del common[len(stack) :]
        for index, (known, met) in enumerate(zip(common, reversed(stack), strict=False)):
            if known != met:  # another call ends here, but another line is of the same loop
                del common[index + (known[0] is met[0]) :]
                return

    def package(self) -> tuple[str, int] | None:
        """The library whose loop it is, and the height of its frame; None if it is the user's."""
        common = self._common
        for height in reversed(range(len(common))):
            file = common[height][0].co_filename
            if places.is_users(file):
                return None
            name = places.package(file)
            if name is not None:
                return name, height
        return None
