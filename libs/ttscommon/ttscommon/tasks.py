"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from typing import Any


async def stop(*tasks: asyncio.Task[Any], again_s: float = 0.1) -> None:
    """Cancel the tasks and wait until they have ended, however they do.

    Python 3.11's `asyncio.wait_for` returns instead of raising when its future is done in the
    moment of the cancellation; a loop around it then never ends. So cancel again, every `again_s`,
    which must be longer than the tasks take to clean up.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        done, pending = await asyncio.wait(pending, timeout=again_s)
        for task in done:
            if not task.cancelled():
                task.exception()  # seen, so that nobody complains of it


async def stop_everything(limit_s: float) -> list[str]:
    """`stop` all tasks but the one that asks; returns the names of those that will not end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    try:
        async with asyncio.timeout(limit_s):
            await stop(*others, again_s=0.2)
    except TimeoutError:
        return sorted(task.get_name() for task in others if not task.done())
    return []
