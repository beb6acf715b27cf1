"""What ended requests leave at a real broker goes soon, and what is still needed stays."""

import asyncio
from typing import Any

import pytest

from gateway.requests.retention import Retention, RetentionTuning
from ttscommon.bus import Bus, JobFeed
from ttscommon.bus.faults import Unreachable
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.messages import End, SpeechRequest
from ttscommon.wire.subjects import LOGS, TALKER

QUICK = RetentionTuning(
    resumable_s=0.0, sweep_s=0.01, again_s=0.05, batch=2, extents_s=0.01, timeout_s=0.0
)
LATE_S = 3600.0


async def speak(bus: Bus, *names: str) -> None:
    """Requests that have a record in each log, and a tombstone."""
    for name in names:
        for log in LOGS:
            writer = await bus.writer(log, name, epoch=1)
            await writer.end(End(name, 0, "ok"))
            await writer.close()
            await writer.release()
        await bus.kv.put(subjects.TOMBSTONES, name, b"client left")


async def kept(bus: Bus, name: str) -> set[str]:
    """Where the broker still has something of a request."""
    logs = {log.stream for log in LOGS if await bus.log(log, name).read(0)}
    tombstone = await bus.kv.get(subjects.TOMBSTONES, name)
    return logs | ({"tombstone"} if tombstone is not None else set())


async def found(bus: Bus, name: str) -> set[str] | None:
    """`kept`, or None while the broker is away."""
    try:
        return await kept(bus, name)
    except (*Unreachable, BusUnavailable):
        return None


async def until_kept(bus: Bus, name: str, wanted: set[str]) -> None:
    async with asyncio.timeout(20):
        while await found(bus, name) != wanted:
            await asyncio.sleep(0.01)


async def test_what_a_request_left_is_removed_and_nothing_of_another(bus: Bus) -> None:
    await speak(bus, "a", "b", "c", "other")
    retention = Retention(bus, 0.0, QUICK)
    for name in ("a", "b", "c"):
        retention.left(name, resumable=False, text=True, cancelled=True)
    running = asyncio.create_task(retention.run())
    for name in ("a", "b", "c"):
        await until_kept(bus, name, set())
    assert await kept(bus, "other") == {"TEXT", "CODES", "AUDIO", "tombstone"}
    running.cancel()


async def test_nothing_is_removed_before_its_time(bus: Bus) -> None:
    await speak(bus, "a", "b")
    retention = Retention(bus, LATE_S, QUICK)
    retention.left("a", resumable=False, text=False, cancelled=False)
    retention.left("b", resumable=True, text=False, cancelled=False)
    running = asyncio.create_task(retention.run())
    await until_kept(bus, "b", {"TEXT", "AUDIO", "tombstone"})
    assert "CODES" in await kept(bus, "a")
    assert len(retention) == 1
    running.cancel()


async def test_a_request_that_has_a_job_keeps_its_logs_until_that_is_done(bus: Bus) -> None:
    await speak(bus, "a")
    await bus.submit(TALKER, SpeechRequest("a", "m", "v", "hello"))
    retention = Retention(bus, 0.0, QUICK)
    retention.left("a", resumable=False, text=True, cancelled=True)
    looked = asyncio.Event()
    held = bus.queue.held

    async def watched(request_ids: Any) -> set[str]:
        found = await held(request_ids)
        looked.set()
        return found

    bus.queue.held = watched  # type: ignore[method-assign]
    running = asyncio.create_task(retention.run())
    async with asyncio.timeout(10):
        await looked.wait()
    assert await kept(bus, "a") == {"TEXT", "CODES", "AUDIO", "tombstone"}
    async with asyncio.timeout(10):
        assert await (await JobFeed(bus.link, TALKER, "m").next()).acknowledge(5.0)
    await until_kept(bus, "a", set())
    running.cancel()


@pytest.mark.own_broker
async def test_a_broker_that_is_away_is_asked_again(bus: Bus, broker: Any) -> None:
    await speak(bus, "a")
    retention = Retention(bus, 0.0, QUICK)
    retention.left("a", resumable=False, text=True, cancelled=True)
    broker.children["broker"].kill()
    running = asyncio.create_task(retention.run())
    await until_kept(bus, "a", set())
    running.cancel()


async def test_a_request_that_is_heard_again_keeps_its_logs_until_it_is_left_again(
    bus: Bus,
) -> None:
    await speak(bus, "a", "b")
    retention = Retention(bus, 0.0, QUICK)
    for name in ("a", "b"):
        retention.left(name, resumable=True, text=True, cancelled=False)
    retention.forget("a")
    running = asyncio.create_task(retention.run())
    await until_kept(bus, "b", {"AUDIO", "tombstone"})
    assert await kept(bus, "a") == {"TEXT", "CODES", "AUDIO", "tombstone"}
    retention.left("a", resumable=True, text=True, cancelled=False)
    await until_kept(bus, "a", {"AUDIO", "tombstone"})
    assert len(retention) == 0
    running.cancel()


async def test_a_request_that_goes_on_over_another_connection_here_is_not_over(bus: Bus) -> None:
    retention = Retention(bus, 0.0, QUICK)
    retention.begin("a", fresh=True, resumable=True)
    retention.begin("a", fresh=False, resumable=True)
    retention.handed_on("a")
    assert len(retention) == 0
    retention.left("a", resumable=True, text=False, cancelled=False)
    assert len(retention) == 1


async def test_what_is_not_remembered_is_needed_as_long(bus: Bus) -> None:
    now = 0.0
    retention = Retention(bus, 30.0, RetentionTuning(most=1), clock=lambda: now)
    retention.begin("a", fresh=True, resumable=True)
    retention.begin("b", fresh=True, resumable=True)
    retention.left("a", resumable=False, text=False, cancelled=False)
    retention.left("b", resumable=False, text=False, cancelled=False)
    assert len(retention) == 1
    retention.forget("a")
    assert retention.report(leaving=True)
    now = 100.0
    assert not retention.report(leaving=True)
