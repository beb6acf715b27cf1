"""A broker's client, and an engine that takes no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from ttscommon.bus import Bus
from ttscommon.process.metrics import Metrics
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.engine.engine import Engine

Connect = Callable[[], Awaitable[Bus]]


@pytest.fixture
async def connect(broker: Any) -> AsyncIterator[Connect]:
    buses: list[Bus] = []

    async def connect() -> Bus:
        bus = await Bus.connect(broker.bus, "test")
        await bus.ensure()
        buses.append(bus)
        return bus

    yield connect
    for bus in buses:
        await bus.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(FakeCodec("m", DecodeCurve(0.0, 0.0, 0.0)), slots=8, metrics=Metrics())
    engine.start()
    yield engine
    engine.stop()
