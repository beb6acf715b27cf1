"""Connections to a test's broker."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ttscommon.bus import Bus
from ttscommon.process.settings import BusSettings
from ttscommon.wire.subjects import TALKER, VOCODER

Connect = Callable[..., Awaitable[Bus]]


@asynccontextmanager
async def connecting(broker: BusSettings) -> AsyncIterator[Connect]:
    """Yields what connects under a name; `prepared`: the broker has the queues of a model `m`."""
    made: list[Bus] = []

    async def connected(name: str = "test", *, prepared: bool = True, **settings: Any) -> Bus:
        bus = await Bus.connect(broker.model_copy(update=settings), name)
        made.append(bus)
        if prepared:
            await bus.setup.create()
            for stage in (TALKER, VOCODER):
                await bus.ensure_consumer(stage, "m")
        return bus

    yield connected
    for bus in made:
        if not bus.link.closed:
            await bus.close()
