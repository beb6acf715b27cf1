"""Connections to a test's broker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ttscommon.bus import Bus
from ttscommon.bus.layout import Layout
from ttscommon.process.settings import BusSettings
from ttscommon.wire.subjects import STAGES

Connect = Callable[..., Awaitable[Bus]]


async def make_streams(bus: Bus, *models: str) -> None:
    """What `bus.setup` makes, with the queues of `models`: all at once, and nothing is verified."""
    settings, jetstream = bus.link.settings, bus.link.jetstream
    sizes = {
        "replicas": settings.replicas,
        "max_log_bytes": settings.max_log_bytes,
        "slots": settings.slots,
    }
    layout = Layout(settings.prefix, **{name: size for name, size in sizes.items() if size})
    await asyncio.gather(*(jetstream.add_stream(each) for each in layout.streams()))
    queues = [(stage, model) for stage in STAGES.values() for model in models]
    await asyncio.gather(*(bus.setup.ensure_consumer(*each) for each in queues))


@asynccontextmanager
async def connecting(broker: BusSettings) -> AsyncIterator[Connect]:
    """Yields what connects under a name; `prepared`: the broker has the queues of a model `m`."""
    made: list[Bus] = []
    ready = set[str]()

    async def connected(name: str = "test", *, prepared: bool = True, **settings: Any) -> Bus:
        bus = await Bus.connect(broker.model_copy(update=settings), name)
        made.append(bus)
        prefix = bus.link.settings.prefix
        if prepared and prefix not in ready:
            await make_streams(bus, "m")
            ready.add(prefix)
        return bus

    yield connected
    for bus in made:
        if not bus.link.closed:
            await bus.close()
