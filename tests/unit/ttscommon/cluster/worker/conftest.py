"""Fixtures: connections to a prepared broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from ttscommon.bus import Bus
from ttscommon.wire.subjects import VOCODER


@pytest.fixture
async def connect(broker: Any) -> AsyncIterator[Callable[[], Awaitable[Bus]]]:
    buses: list[Bus] = []

    async def connected() -> Bus:
        bus = await Bus.connect(broker.bus, "worker")
        await bus.ensure()
        await bus.ensure_consumer(VOCODER, "m")
        buses.append(bus)
        return bus

    yield connected
    for bus in buses:
        if not bus.link.closed:
            await bus.close()
