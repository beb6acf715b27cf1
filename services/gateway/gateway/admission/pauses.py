"""Streams whose text pauses: the stages park them, and they give their room to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Writing(Protocol):
    """A stream whose text is still being written."""

    def paused_s(self, now: float) -> float: ...
    def rest(self) -> None: ...


class Pauses:
    """One gateway's. A stream that got no text and gave no sound for `rest_s` rests; after
    `pause_s` it may be about to.
    """

    def __init__(self, clock: Callable[[], float], pause_s: float, rest_s: float) -> None:
        self._clock = clock
        self._pause_s = pause_s
        self._rest_s = rest_s
        self._streams: dict[int, Writing] = {}

    def follow(self, stream: Writing) -> None:
        """Until `forget`."""
        self._streams[id(stream)] = stream

    def forget(self, stream: Writing) -> None:
        """It is over; safe to call for any stream."""
        self._streams.pop(id(stream), None)

    async def make_room(self, is_full: Callable[[], bool]) -> None:
        """While `is_full`, wait for the room of streams that are about to rest.

        They do so within `rest_s`. A request that comes in this moment is not refused for it.
        """
        until_s = self._clock() + self._rest_s
        while is_full() and self._clock() < until_s:
            if (wait_s := self._rest_the_next()) is None:
                return
            await asyncio.sleep(wait_s)

    def _rest_the_next(self) -> float | None:
        """Seconds until another stream rests; 0 if one does now, None if no text pauses."""
        now = self._clock()
        streams = self._streams.values()
        longest = max(streams, key=lambda stream: stream.paused_s(now), default=None)
        if longest is None or (paused_s := longest.paused_s(now)) < self._pause_s:
            return None
        if paused_s >= self._rest_s:
            longest.rest()
            return 0.0
        return self._rest_s - paused_s
