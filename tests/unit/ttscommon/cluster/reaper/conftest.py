"""A broker with the queues of a model, and the verbs of these tests."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ttscommon.bus import Bus, Delivery
from ttscommon.cluster.leases import JobLeases, Lease
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Model, Replica
from ttscommon.wire.subjects import LEASES, REPLICAS, TALKER

REQUEST = SpeechRequest("r", "m", "v", "hello")
WORKER = "talker-dead"


class Scene:
    """What has happened before a test looks."""

    request = REQUEST
    worker = WORKER

    async def claimed(self, bus: Bus, *, queue: bool = True) -> Delivery:
        """The talkers' job of the request is in a worker's hands."""
        if queue:
            await bus.submit(TALKER, REQUEST)
        feed = bus.queue.feed(TALKER, "m")
        async with asyncio.timeout(10):
            return await feed.next()

    async def leased(self, bus: Bus, delivery: Delivery, worker_id: str = WORKER) -> Lease:
        """The worker has written its lease."""
        lease = Lease(worker_id, "talker", "r", delivery.epoch(REQUEST), delivery.receipt)
        await bus.kv.put(LEASES, lease.key, lease.encode())
        return lease

    async def lease(self, bus: Bus) -> Lease | None:
        """The newest of the request."""
        return (await JobLeases.read(bus, "talker", "r")).newest

    async def reported(self, bus: Bus, worker_id: str, free: int = 1) -> None:
        """A live talker has said that it has room."""
        replica = Replica(worker_id, "talker", (Model("m", "f", 16_000, 25.0),), 4, free)
        await bus.kv.put(REPLICAS, worker_id, replica.encode())

    async def until(self, condition: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(15):
            while not await condition():
                await asyncio.sleep(0.01)


@pytest.fixture
def scene() -> Scene:
    return Scene()
