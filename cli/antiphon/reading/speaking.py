"""Requests of a book, as many at once as a server takes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from antiphon.client import Audio, Finished, GatewayError, Started, Word, Words, speak
from antiphon.reading.folder import PortionWriter, SpokenPortion, Wanted, WorkFolder
from antiphon.say import origin_of, whole

_FIRST: Final = 4
_BACKOFF_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0
# For so long nothing may get better, of what time can mend.
TIMEOUT_S: Final = 300.0
_NOTHING: Final = "nothing_to_say"
_FULL: Final = ("overloaded", "rate_limit_exceeded", "too_many_connections")
# "": no server answered.
_PASSING: Final = (
    *("", "draining", "bus_unavailable", "store_lost", "store_full", "store_unavailable"),
    *("unavailable", "timeout", "log_gone"),
)


class InFlight:
    """How many requests may be under way: one more for each that was spoken, half after a refusal.

    So a server that others use as well is filled up to where it refuses, and then left some room.
    """

    def __init__(self, most: int) -> None:
        self.limit = min(_FIRST, most)
        self._most = most

    def spoken(self) -> None:
        self.limit = min(self._most, self.limit + 1)

    def refused(self) -> None:
        self.limit = max(1, self.limit // 2)


@dataclass(frozen=True)
class Server:
    """Where to speak. most: requests at once; timeout_s: see TIMEOUT_S."""

    url: str
    key: str | None = None
    most: int = 16
    timeout_s: float = TIMEOUT_S


class Speaking:
    """One run's requests. `told` is called with each portion that is there."""

    def __init__(
        self, server: Server, folder: WorkFolder, told: Callable[[Wanted, SpokenPortion], None]
    ) -> None:
        self.in_flight = InFlight(server.most)
        self._server = server
        self._folder = folder
        self._report = told
        self._better_s = time.monotonic()

    async def run(self, wanted: Iterable[Wanted]) -> None:
        """Speak all of it, in this order but for what is under way; raises GatewayError."""
        waiting = deque(wanted)
        running: set[asyncio.Task[None]] = set()
        try:
            while waiting or running:
                while waiting and len(running) < self.in_flight.limit:
                    running.add(asyncio.create_task(self._until_spoken(waiting.popleft())))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _until_spoken(self, wanted: Wanted) -> None:
        while True:
            try:
                spoken = await self._speak(wanted)
            except GatewayError as error:
                await self._wait(error, wanted)
                continue
            self._better_s = time.monotonic()
            self.in_flight.spoken()
            self._report(wanted, spoken)
            return

    async def _wait(self, error: GatewayError, wanted: Wanted) -> None:
        """Until it may be asked for again; raises GatewayError where that does not help."""
        if error.code in _FULL:
            self.in_flight.refused()
        elif error.code not in _PASSING:
            where = " ".join(wanted.text.split()[:8])
            raise GatewayError(f"{error} (at '{where} ...')", error.code) from error
        if time.monotonic() - self._better_s > self._server.timeout_s:
            raise error
        await asyncio.sleep(min(error.retry_after_s or _BACKOFF_S, _LONGEST_WAIT_S))

    async def _speak(self, wanted: Wanted) -> SpokenPortion:
        with self._folder.begin(wanted) as writer:
            try:
                return await self._receive(wanted, writer)
            except GatewayError as error:
                if error.code != _NOTHING:
                    raise
            return writer.finish(0, [], "silent")

    async def _receive(self, wanted: Wanted, writer: PortionWriter) -> SpokenPortion:
        rate, words, origin = 0, list[Word](), None
        events = speak(self._server.url, whole(wanted.text), wanted.options, self._server.key)
        async with aclosing(events):
            async for event in events:
                match event:
                    case Started():
                        rate, origin = event.sample_rate, origin_of(event)
                    case Audio(pcm):
                        writer.write(pcm)
                    case Words(timed):
                        words += timed
                    case Finished(outcome) if outcome in ("ok", "runaway"):
                        outcome = outcome if rate else "silent"
                        return writer.finish(rate, words, outcome, origin)
                    case Finished(outcome):
                        raise GatewayError(f"the request ended as '{outcome}'", "timeout")
        raise GatewayError("the request ended without an end", "timeout")
