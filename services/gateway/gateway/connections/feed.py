"""Bytes from a client, handed to a parser in slices, so that no client holds up the loop.

One read brings up to 256 KiB: forty thousand empty frames, or thousands of pipelined requests. A
parser in Python takes half a second for that, and every other listener waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

# The costliest bytes are empty frames and pipelined requests: some 5 us a byte.
SLICE_BYTES: Final = 1024
# Between two looks at the clock and the other clients.
BUDGET_S: Final = 0.002


class Feed:
    """`parse` gets what `put` got, while `paused` says no and the transport is open.

    What is not parsed yet is bounded: the transport reads no more until all of it is.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        parse: Callable[[bytes], None],
        paused: Callable[[], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._parse = parse
        self._paused = paused
        self._held = b""
        self._at = 0
        self._waking: asyncio.Handle | None = None

    @property
    def holds(self) -> bool:
        """Whether there is anything left to parse."""
        return self._at < len(self._held)

    def put(self, data: bytes) -> None:
        """Parse `data` now if it is short, else its beginning now and the rest by and by."""
        if not self.holds and len(data) <= SLICE_BYTES:
            self._parse(data)
            return
        self._held = self._held[self._at :] + data
        self._at = 0
        self._transport.pause_reading()
        if self._waking is None:
            self._go_on()

    def wake(self) -> None:
        """The parser takes more now: what is held goes first, then the transport reads on."""
        if not self.holds:
            return
        self._transport.pause_reading()
        if self._waking is None:
            self._waking = self._loop.call_soon(self._go_on)

    def take_rest(self) -> bytes:
        """What was not parsed, for another parser; this one gets no more."""
        rest, self._held, self._at = self._held[self._at :], b"", 0
        self.close()
        return rest

    def close(self) -> None:
        """Drop what is left: the connection is gone."""
        self._held, self._at = b"", 0
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def _go_on(self) -> None:
        self._waking = None
        until_s = time.perf_counter() + BUDGET_S
        while self.holds and not self._paused() and not self._transport.is_closing():
            start, self._at = self._at, self._at + SLICE_BYTES
            self._parse(self._held[start : self._at])
            if time.perf_counter() > until_s:
                break
        self._arrange()

    def _arrange(self) -> None:
        if self._transport.is_closing():
            self.close()
        elif not self.holds:
            self._held, self._at = b"", 0
            if not self._paused():
                self._transport.resume_reading()
        elif not self._paused():
            self.wake()
