"""The fetches of one batch in an event loop that another thread runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hotlap.data.attempts import Attempts, TookTooLong
from hotlap.data.batches import LINGER_SECONDS, Problem

Later = Callable[[], Awaitable[Any]]


def fetch_all(
    loop: asyncio.AbstractEventLoop,
    calls: Sequence[Later],
    *,
    attempts: Attempts,
    at_once: int,
    to_the_end: bool,
) -> list[Any]:
    """What came of each call, in order; with a problem among it the rest counts if `to_the_end`."""
    over = threading.Event()
    tasks: list[asyncio.Task[list[Any]]] = []

    def begin() -> None:
        tasks.append(loop.create_task(_gathered(calls, attempts, at_once, to_the_end)))
        tasks[0].add_done_callback(lambda _: over.set())

    def end() -> None:
        for task in tasks:
            task.cancel()

    try:
        loop.call_soon_threadsafe(begin)
        over.wait()
    except BaseException:  # Ctrl-C: the fetches end before it is passed on
        loop.call_soon_threadsafe(end)
        over.wait(LINGER_SECONDS)
        raise
    return tasks[0].result()


async def _gathered(
    calls: Sequence[Later], attempts: Attempts, at_once: int, to_the_end: bool
) -> list[Any]:
    gate = asyncio.Semaphore(at_once)
    tasks = [asyncio.ensure_future(_one(call, attempts, gate)) for call in calls]
    if not tasks:
        return []
    wanted = asyncio.ALL_COMPLETED if to_the_end else asyncio.FIRST_EXCEPTION
    try:
        await asyncio.wait(tasks, return_when=wanted)
    finally:  # a cancelled fetch closes its connection: nothing goes on
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return [_outcome(task) for task in tasks]


async def _one(call: Later, attempts: Attempts, gate: asyncio.Semaphore) -> Any:
    async with gate:
        try:
            got = await asyncio.wait_for(_tried(call, attempts), attempts.timeout)
        except asyncio.TimeoutError as problem:
            seconds = attempts.timeout or 0.0
            raise TookTooLong(f"no answer within {seconds:g} s (timeout)") from problem
    if isinstance(got, Problem):
        raise got.error
    return got


async def _tried(call: Later, attempts: Attempts) -> Any:
    """Raises nothing: a time-out of the source's own is no time-out of ours."""
    tried = 0
    while True:
        tried += 1
        try:
            try:
                return await call()
            except Exception as problem:
                pause = attempts.pause(problem, tried)
                if pause is None:
                    raise
        except Exception as problem:
            return Problem(problem)
        await asyncio.sleep(pause)


def _outcome(task: asyncio.Future[Any]) -> Any:
    """None for one that was dropped because another had failed."""
    if task.cancelled():
        return None
    problem = task.exception()
    return Problem(problem) if isinstance(problem, Exception) else task.result()
