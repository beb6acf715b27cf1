"""Messages that wait to be sent to one client: bounded, in order, cut off when it reads nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gateway.errors import ClientTooSlow

_CONTROL_MARGIN_BYTES: Final = 64 << 10

Sent = Callable[[], Awaitable[None]]
Transmit = Callable[[str | bytes], Awaitable[None]]


@dataclass(frozen=True)
class _Item:
    data: str | bytes
    sent: Sent | None
    audio: bool = False
    owner: object = None


class Outbox:
    """Audio waits for room in `put_audio`; control messages never wait in `put`.

    A client that provokes control messages (errors, say) without reading them overflows a fixed
    margin and is cut off like one that takes no audio for `timeout_s`.
    """

    def __init__(self, limit_bytes: int, timeout_s: float) -> None:
        self._limit = limit_bytes
        self._timeout_s = timeout_s
        self._items: deque[_Item] = deque()
        self._bytes = 0
        self._closing = False
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put_audio(self, data: str | bytes, sent: Sent, owner: object = None) -> None:
        """Queue audio, waiting while the buffer is full; `sent` is called when it left.

        `owner`: whose it is, where several share a connection.
        """
        while self._bytes >= self._limit:
            self._room.clear()
            await self._room.wait()
        self._append(_Item(data, sent, audio=True, owner=owner))

    async def flush(self) -> None:
        """Wait until everything queued so far has left."""
        flushed = asyncio.Event()

        async def mark() -> None:
            flushed.set()

        self._append(_Item(b"", mark, audio=True))
        await flushed.wait()

    def put(self, data: str | bytes) -> None:
        """Queue a control message; raises ClientTooSlow when far too many wait already."""
        if self._bytes > self._limit + _CONTROL_MARGIN_BYTES:
            raise ClientTooSlow("the client does not read what it asked for")
        self._append(_Item(data, None))

    def drop_audio(self, owner: object = None) -> None:
        """Forget the audio that has not left, all or one owner's: its listener does not want it."""
        kept = [item for item in self._items if not item.audio or _other(item, owner)]
        self._items = deque(kept)
        self._bytes = sum(len(item.data) for item in kept)
        self._room.set()

    def finish(self) -> None:
        """Nothing more will come: `send_all` returns when everything has left."""
        self._closing = True
        self._wake.set()

    async def send_all(self, transmit: Transmit) -> None:
        """Send what comes until `finish`; raises ClientTooSlow when the client takes nothing."""
        while True:
            while not self._items:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
            item = self._items.popleft()
            self._bytes -= len(item.data)
            if item.data:
                await self._send(item.data, transmit)
            if item.sent is not None:
                await item.sent()
            if self._bytes < self._limit:
                self._room.set()

    async def _send(self, data: str | bytes, transmit: Transmit) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await transmit(data)
        except TimeoutError:
            raise ClientTooSlow(f"the client took nothing for {self._timeout_s:g} s") from None

    def _append(self, item: _Item) -> None:
        self._items.append(item)
        self._bytes += len(item.data)
        self._wake.set()


def _other(item: _Item, owner: object) -> bool:
    return owner is not None and item.owner is not owner
