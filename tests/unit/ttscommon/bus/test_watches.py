"""What is known of the broker's store: lost streams, a full disk, and silence that is neither."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats.errors
import nats.js.errors
import pytest

from tests.waits import until
from ttscommon.bus import Bus, StoreWatch
from ttscommon.bus.faults import StoreState, is_full, is_queue_full
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.watches import WatchTuning
from ttscommon.wire.errors import Fenced, StoreFull, StoreLost
from ttscommon.wire.messages import End, encode
from ttscommon.wire.subjects import CODES, LEASES, TALKER

STREAM = "antiphon-CODES"
# Five times as fast as a service.
FAST = WatchTuning(look_s=0.2, info_s=0.1, idle_s=0.4, silent_s=0.3)
RECORD = encode(End("r", 0, "ok", epoch=1))


def refusal(code: int, description: str) -> nats.js.errors.APIError:
    return nats.js.errors.APIError(code=503, err_code=code, description=description)


def test_a_full_queue_and_a_full_disk_are_told_apart() -> None:
    queue = refusal(10077, "maximum messages exceeded")
    disk = refusal(10077, "write 1.blk: no space left on device")
    assert (is_queue_full(queue), is_full(queue)) == (True, False)
    assert (is_queue_full(disk), is_full(disk)) == (False, True)
    assert is_full(refusal(10047, "insufficient storage resources available"))


def test_a_write_that_is_refused_for_want_of_room_is_known_at_once() -> None:
    store = StoreState()
    store.require()
    store.missed(STREAM, time.monotonic(), refusal(10077, "no space left on device"))
    with pytest.raises(StoreFull):
        store.require()
    before = store.takes
    store.kept(STREAM)
    assert (before, store.takes) == (False, True)
    store.heal()
    store.require()


def test_a_write_without_an_answer_says_something_only_where_questions_are_answered() -> None:
    store, silence = StoreState(), nats.errors.TimeoutError()
    store.missed(STREAM, time.monotonic(), silence)
    assert not store.deaf(STREAM, 0.0)  # it may have no leader
    store.found(STREAM)
    store.missed(STREAM, time.monotonic() + 1.0, silence)
    assert store.deaf(STREAM, 0.0)
    store.kept("another")
    assert not store.deaf(STREAM, 60.0)  # there is room for others
    store.kept(STREAM)
    assert not store.deaf(STREAM, 0.0)


def test_a_write_that_was_lost_with_its_connection_says_nothing() -> None:
    store = StoreState()
    store.found(STREAM)
    began_s = time.monotonic() + 1.0
    store.forget()
    store.found(STREAM)
    store.missed(STREAM, began_s - 2.0, nats.errors.TimeoutError())
    assert not store.deaf(STREAM, 0.0)


@asynccontextmanager
async def watched(bus: Bus) -> AsyncIterator[None]:
    watching = asyncio.create_task(StoreWatch(bus.link, bus.try_to_store, FAST).run())
    try:
        yield
    finally:
        watching.cancel()


async def test_a_lost_stream_is_found_missing_while_nothing_is_written_to_it(bus: Bus) -> None:
    async with watched(bus):
        await bus.link.jetstream.delete_stream(f"KV_{bus.link.name(LEASES)}")
        await until(lambda: type(bus.link.store.problem) is StoreLost)
        assert "leases" in str(bus.link.store.problem)
        await bus.setup.create()
        await until(lambda: bus.link.store.problem is None)


async def test_a_queue_that_was_made_anew_between_two_looks_has_lost_its_jobs(bus: Bus) -> None:
    store, queue = bus.link.store, bus.link.name(TALKER.stream)
    watch = StoreWatch(bus.link)
    await watch._look(all_=True)
    for stream in (bus.link.name(CODES.stream), queue):
        assert store.queues_lost_s == float("-inf")
        await bus.link.jetstream.delete_stream(stream)
        await bus.setup.create()
        await watch._look(all_=True)
    began_s = store.queues_lost_s
    assert began_s > 0
    await watch._look(all_=True)
    assert store.queues_lost_s == began_s
    assert store.problem is None


@pytest.mark.slow
@pytest.mark.own_broker
async def test_a_broker_that_is_stopped_and_goes_on_is_neither_lost_nor_full(
    broker: Any, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(bus.link.store, "find", lambda problem: found.append(problem.code))
    pid = broker.children["broker"].pid
    async with watched(bus):
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(3.0)
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(2.0)
    assert found == []


@pytest.mark.own_broker
async def test_a_broker_that_is_killed_is_neither_lost_nor_full(broker: Any, bus: Bus) -> None:
    async with watched(bus):
        broker.children["broker"].kill()
        began_s = time.monotonic()
        while time.monotonic() - began_s < 1.5:
            assert bus.link.store.problem is None
            await asyncio.sleep(0.02)


async def test_the_refusal_of_a_leader_that_leads_no_more_fences_nobody(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await bus.log(CODES, "r").commit(RECORD, last=0, message_id="1", epoch=1)
    append, refusals = RequestLog._append, [refusal(10071, "wrong last sequence: 0")]

    async def refused_once(*arguments: Any) -> int:
        if refusals:
            raise refusals.pop()
        return await append(*arguments)

    monkeypatch.setattr(RequestLog, "_append", refused_once)
    second = await bus.log(CODES, "r").commit(RECORD, last=first, message_id="2", epoch=1)
    assert second > first
    with pytest.raises(Fenced):
        await bus.log(CODES, "r").commit(RECORD, last=first, message_id="3", epoch=1)
