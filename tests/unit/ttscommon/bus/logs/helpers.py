"""What the tests of both kinds of log do alike."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.waits import TIMEOUT_S
from ttscommon.bus import Bus
from ttscommon.wire.messages import Chunk, End


async def drain(reader: AsyncIterator[Chunk | End]) -> list[Chunk | End]:
    """All that is left to read."""
    async with asyncio.timeout(TIMEOUT_S):
        return [record async for record in reader]


async def settled(bus: Bus) -> None:
    """What this connection has sent so far has reached the broker: its messages, and its interest
    in those of others.
    """
    await bus.link.client.flush()


async def never(*_: Any, **__: Any) -> int:
    """A broker that does not answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def losing(bus: Bus, monkeypatch: pytest.MonkeyPatch, which: Callable[[int], bool]) -> None:
    """Live messages of `bus` for which `which(number)` is true are lost on the way."""
    sent = 0
    deliver = bus.link.send_raw

    async def lossy(subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        nonlocal sent
        sent += subject.startswith("live.")
        if not (subject.startswith("live.") and which(sent)):
            await deliver(subject, data, headers)

    monkeypatch.setattr(bus.link, "send_raw", lossy)
