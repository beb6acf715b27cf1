"""From an engine's thread to the requests' coroutines: one call a turn, whatever it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

EventT = TypeVar("EventT")


class EventRouter(Generic[EventT]):
    """Hands every stream's events to the queue that its request listens to."""

    def __init__(self) -> None:
        """To be made on the event loop that the queues belong to."""
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str, asyncio.Queue[EventT]] = {}

    def __call__(self, events: Sequence[tuple[str, EventT]]) -> None:
        """A turn's events; from any thread. Raises RuntimeError when the loop is closed."""
        self._loop.call_soon_threadsafe(self._deliver, events)

    @contextmanager
    def listening(self, key: str) -> Iterator[asyncio.Queue[EventT]]:
        """The stream's events from now on; a later listener takes them over."""
        queue: asyncio.Queue[EventT] = asyncio.Queue()
        self._queues[key] = queue
        try:
            yield queue
        finally:
            if self._queues.get(key) is queue:
                del self._queues[key]

    def _deliver(self, events: Sequence[tuple[str, EventT]]) -> None:
        for key, event in events:
            if (queue := self._queues.get(key)) is not None:
                queue.put_nowait(event)
