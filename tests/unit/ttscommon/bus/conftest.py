"""Two connections to one broker: one writes, the other reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from ttscommon.bus import Bus


@pytest_asyncio.fixture
async def bus(broker: Any) -> AsyncIterator[Bus]:
    connected = await Bus.connect(broker.bus, "writer")
    await connected.ensure()
    yield connected
    await connected.close()


@pytest_asyncio.fixture
async def other(broker: Any, bus: Bus) -> AsyncIterator[Bus]:
    connected = await Bus.connect(broker.bus, "reader")
    yield connected
    await connected.close()
