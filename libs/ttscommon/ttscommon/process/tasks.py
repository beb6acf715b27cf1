"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log_ = structlog.get_logger(__name__)


async def stop(*tasks: asyncio.Task[Any], again_s: float = 0.1) -> None:
    """Cancel the tasks and wait until they have ended, however they do.

    Python 3.11's `asyncio.wait_for` returns instead of raising when its future is done in the
    moment of the cancellation; a loop around it then never ends. So cancel again, every `again_s`,
    which must be longer than the tasks take to clean up.
    """
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # seen, so that asyncio does not complain of it
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        done, pending = await asyncio.wait(pending, timeout=again_s)
        for task in done:
            if not task.cancelled():
                task.exception()  # seen, so that asyncio does not complain of it


async def to_the_end(clean_up: Coroutine[Any, Any, None]) -> None:
    """Finish it even if the caller is cancelled meanwhile; the cancellation is raised behind it."""
    task = asyncio.ensure_future(clean_up)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


class Chores:
    """Short tasks without a waiting caller, kept from being collected until they end.

    A task that fails is an error in the log, which is the only place that tells of it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, chore: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(chore, name=getattr(chore, "__qualname__", None))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    async def finish(self, limit_s: float) -> None:
        """Give them `limit_s`, then end them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit_s)
        await stop(*self._tasks)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log_.error("chore.failed", chore=task.get_name(), exc_info=error)


class DutyEnded(Exception):
    """A task that a process lives by came to an end."""


async def until(stopping: asyncio.Event, *duties: asyncio.Task[Any]) -> None:
    """Wait for `stopping`; raises what a duty fails with, and DutyEnded if one just ends.

    A process that lost one of its duties looks alive and is not.
    """
    asked = asyncio.create_task(stopping.wait())
    try:
        done, _ = await asyncio.wait({asked, *duties}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {asked}:
            task.result()
            raise DutyEnded(f"{task.get_name()} ended")
    finally:
        asked.cancel()


async def stop_everything(limit_s: float) -> list[str]:
    """`stop` all tasks but the one that asks; returns the names of those that will not end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    try:
        async with asyncio.timeout(limit_s):
            await stop(*others, again_s=0.2)
    except TimeoutError:
        return sorted(task.get_name() for task in others if not task.done())
    return []
