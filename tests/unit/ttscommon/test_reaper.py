"""What the reaper makes of silence, on a real broker. That jobs go on: test_worker.py."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.reaper import Reaper
from ttscommon.replicas import Lease
from ttscommon.subjects import VOCODER

WORKER = "vocoder-wedged"


@pytest.fixture
async def bus(broker: Any) -> AsyncIterator[Bus]:
    connected = await Bus.connect(broker.bus, "test")
    yield connected
    await connected.close()


def reaper(bus: Bus) -> Reaper:
    """One that knows of a job of WORKER."""
    one = Reaper(bus)
    lease = Lease(WORKER, VOCODER.name, "r", 1, "nobody.acks.here")
    one.leases[lease.key] = lease
    return one


async def test_who_does_not_answer_is_given_up_after_several_pings(bus: Bus) -> None:
    async def mute(message: Any) -> None:
        """Connected, and wedged."""

    await bus.link.subscribe(subjects.ping(WORKER), mute)
    one = reaper(bus)
    for silent in range(1, 3):
        await one._check(WORKER)
        assert one._silent[WORKER] == silent
        assert one.leases
    await one._check(WORKER)
    assert not one.leases


async def test_silence_that_was_not_listened_to_does_not_count(bus: Bus) -> None:
    async def starving(message: Any) -> None:
        """This process gets no CPU while the answer is on its way."""
        time.sleep(1.0)

    await bus.link.subscribe(subjects.ping(WORKER), starving)
    one = reaper(bus)
    await one._check(WORKER)
    assert one._silent[WORKER] == 0
