"""Requests that nobody works on, on a real broker: queued again, and only those."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.requests.orphans import OrphanCheck, Queues
from ttscommon.bus import Bus
from ttscommon.bus.queue import EPOCHS_BEFORE, EPOCHS_PER_ATTEMPT
from ttscommon.messages import End, SpeechRequest
from ttscommon.replicas import Lease
from ttscommon.subjects import CODES, JOBS, LEASES, TALKER, VOCODER

REQUEST = SpeechRequest("r", "m", "v", "hello")


@pytest.fixture
async def bus(broker: Any) -> AsyncIterator[Bus]:
    """With the job of REQUEST in the talkers' queue."""
    connected = await Bus.connect(broker.bus, "test")
    await connected.ensure()
    for stage in (TALKER, VOCODER):
        await connected.ensure_consumer(stage, "m")
    await connected.submit(TALKER, REQUEST)
    yield connected
    await connected.close()


async def claim(bus: Bus) -> Any:
    """Take the talkers' next job as a worker does that dies right away."""
    pull = await bus.link.jetstream.pull_subscribe_bind(durable=TALKER.durable("m"), stream=JOBS)
    return (await pull.fetch(1, timeout=5.0))[0]


async def checks(bus: Bus, times: int) -> int:
    """Check so often, as a gateway that knows no more than the id; returns the jobs queued."""
    check = OrphanCheck(bus, Queues(bus), REQUEST.request_id)
    for _ in range(times):
        await check.check()
    return int((await bus.link.jetstream.stream_info(JOBS)).state.messages) - 1


async def test_an_abandoned_job_is_queued_again_with_higher_epochs(bus: Bus) -> None:
    await claim(bus)
    assert await checks(bus, 1) == 0
    assert await checks(bus, 2) == 1
    again = await claim(bus)
    assert again.headers[EPOCHS_BEFORE] == str(EPOCHS_PER_ATTEMPT)
    assert await bus.queue.submitted(TALKER, "r") == (REQUEST, 1)
    assert await checks(bus, 2) == 2


async def test_a_job_that_waits_is_left_alone(bus: Bus) -> None:
    assert await checks(bus, 3) == 0


async def test_a_job_that_somebody_holds_is_left_alone(bus: Bus) -> None:
    message = await claim(bus)
    lease = Lease("w", "talker", "r", 1, message.reply)
    await bus.kv.put(LEASES, lease.key, lease.encode())
    assert await checks(bus, 3) == 0


async def test_a_job_whose_log_has_its_end_is_left_alone(bus: Bus) -> None:
    await claim(bus)
    writer = await bus.writer(CODES, "r", 1)
    await writer.end(End("r", 0, "ok"))
    await writer.close()
    assert await checks(bus, 3) == 0


async def test_a_job_that_was_acknowledged_is_gone(bus: Bus) -> None:
    await (await claim(bus)).ack_sync()
    assert await bus.queue.submitted(TALKER, "r") is None
    check = OrphanCheck(bus, Queues(bus), "r")
    for _ in range(3):
        await check.check()
    assert (await bus.link.jetstream.stream_info(JOBS)).state.messages == 0
