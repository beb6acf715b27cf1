"""Writer and reader over a real broker: loss, takeover, zombies, restarts."""

import asyncio
import gc
import weakref
from typing import Any
from unittest.mock import AsyncMock

import numpy as np
import pytest

from tests.connections import Connect
from tests.unit.ttscommon.bus.logs.helpers import drain, losing, never, settled
from tests.waits import until
from ttscommon.bus import Bus, LogWriter
from ttscommon.bus.faults import Unreachable
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.logs.takeover import WriterTuning
from ttscommon.wire.errors import BusUnavailable, Fenced, NoResponders
from ttscommon.wire.messages import Chunk, CodecChunk, End, Takeover, Tensor, decode_record, encode
from ttscommon.wire.subjects import CODES

STEP = 100


def codes(start: int, stop: int, request_id: str = "r") -> CodecChunk:
    values = Tensor.of(np.arange(start, stop).astype(np.int16))
    return CodecChunk(request_id, start, {"codes": values})


async def put(writer: LogWriter, chunks: int) -> None:
    for _ in range(chunks):
        await writer.put(codes(writer.position, writer.position + STEP))


async def finish(writer: LogWriter) -> None:
    await writer.end(End("r", writer.position, "ok"))
    await writer.close()


def positions(records: list[Chunk | End]) -> list[int]:
    chunks = [r.tensors["codes"] for r in records if isinstance(r, CodecChunk)]
    return [int(value) for each in chunks for value in each.array()]


async def committed(bus: Bus, chunks: int) -> None:
    """Wait until the log itself holds the record of the last of so many chunks."""

    async def held() -> bool:
        tail = await bus.log(CODES, "r").last()
        return tail is not None and tail.record.end >= chunks * STEP

    await until(held)


async def test_a_reader_that_comes_late_reads_the_log_from_its_offset(bus: Bus, other: Bus) -> None:
    writer = await bus.writer(CODES, "r", 1)
    await put(writer, 5)
    await finish(writer)
    async with other.reader(CODES, "r", start=250) as reader:
        assert positions(await drain(reader)) == list(range(250, 5 * STEP))


async def test_live_messages_lost_on_the_way_come_again(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(bus, monkeypatch, lambda number: number % 3 == 0)
    async with other.reader(CODES, "r") as reader:
        writer = await bus.writer(CODES, "r", 1)
        await put(writer, 30)
        await finish(writer)
        assert positions(await drain(reader)) == list(range(30 * STEP))


async def test_a_record_whose_commit_need_not_wait_goes_out_once(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus.link, "send_raw", sent := AsyncMock())
    async with other.reader(CODES, "r") as reader:
        writer = await bus.writer(CODES, "r", 1)
        await put(writer, 1)
        heard = [await anext(reader)]
        sent.assert_not_awaited()
        monkeypatch.setattr(RequestLog, "commit", never)
        await put(writer, 2)  # the first of them on its way to a log that does not take it
        assert decode_record(sent.await_args_list[-1].args[1]).start == 2 * STEP
        await writer.release()
    assert positions(heard) == list(range(STEP))


async def test_a_fence_that_the_log_may_refuse_is_heard_by_nobody(bus: Bus, other: Bus) -> None:
    async with other.reader(CODES, "r") as reader:
        writer = await bus.writer(CODES, "r", 1)
        await put(writer, 1)
        fence = encode(Takeover("r", 0, epoch=9))
        await bus.link.send_raw(CODES.subject("r"), fence, {"Nats-Expected-Stream": "another"})
        await put(writer, 1)
        await finish(writer)
        assert positions(await drain(reader)) == list(range(2 * STEP))


async def test_a_reader_that_comes_soon_has_all_from_the_writer_without_the_log(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await bus.writer(CODES, "r", 1)
    await put(writer, 9)
    await committed(bus, 9)
    monkeypatch.setattr(RequestLog, "tail", never)
    async with other.reader(CODES, "r") as reader:
        heard = [await anext(reader) for _ in range(9)]
        await finish(writer)
        assert positions(heard + await drain(reader)) == list(range(9 * STEP))


async def test_malformed_messages_on_a_log_are_skipped(bus: Bus, other: Bus) -> None:
    async with other.reader(CODES, "r") as reader:
        await settled(other)
        writer = await bus.writer(CODES, "r", 1)
        await bus.link.send_raw(CODES.live("r"), b"\xc1 not msgpack")
        await bus.link.send_raw(CODES.nack("r"), b"not a number")
        with pytest.raises(BusUnavailable) as unanswered:
            await bus.link.request(CODES.live("r"), b"not a number", 0.05)
        assert not isinstance(unanswered.value, NoResponders)
        await put(writer, 2)
        await finish(writer)
        assert positions(await drain(reader)) == list(range(2 * STEP))


async def test_a_successor_goes_on_where_the_log_ends(bus: Bus, other: Bus) -> None:
    first = await bus.writer(CODES, "r", 1)
    await put(first, 3)
    await committed(bus, 3)
    second = await other.writer(CODES, "r", 2)
    assert second.position == 3 * STEP
    assert positions(list(second.restored)) == list(range(3 * STEP))
    with pytest.raises(Fenced):
        await finish(first)
    await put(second, 1)
    await finish(second)
    async with bus.reader(CODES, "r") as reader:
        assert positions(await drain(reader)) == list(range(4 * STEP))


async def test_a_zombie_with_a_lower_epoch_cannot_even_open(bus: Bus, other: Bus) -> None:
    second = await other.writer(CODES, "r", 3)
    await put(second, 1)
    with pytest.raises(Fenced):
        await bus.writer(CODES, "r", 2)
    await finish(second)


async def test_what_was_heard_andnever_committed_is_adopted(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with other.reader(CODES, "r") as reader:
        first = await bus.writer(CODES, "r", 1)
        await put(first, 1)
        await committed(bus, 1)
        monkeypatch.setattr(RequestLog, "commit", never)
        await put(first, 2)
        heard = [await anext(reader) for _ in range(3)]
        await first.release()
        monkeypatch.undo()
        second = await bus.writer(CODES, "r", 2)
        assert second.position == 3 * STEP
        await put(second, 1)
        await finish(second)
        records = heard + await drain(reader)
    assert positions(records) == list(range(4 * STEP))


async def test_a_finished_log_needs_no_successor(bus: Bus, other: Bus) -> None:
    writer = await bus.writer(CODES, "r", 1)
    await put(writer, 1)
    await finish(writer)
    assert (await other.writer(CODES, "r", 2)).ended


async def test_a_full_window_holds_producers_back(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLog, "commit", never)
    writer = await bus.writer(CODES, "r", 1)
    await put(writer, WriterTuning().window)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(put(writer, 1), 0.1)
    await writer.release()


@pytest.mark.own_broker
async def test_a_broker_killed_in_the_middle_loses_and_repeats_nothing(
    broker: Any, bus: Bus, other: Bus
) -> None:
    async with other.reader(CODES, "r") as reader:
        writer = await bus.writer(CODES, "r", 1)
        await put(writer, 5)
        await committed(bus, 5)
        broker.children["broker"].kill()
        await put(writer, 20)
        await finish(writer)
        assert positions(await drain(reader)) == list(range(25 * STEP))


@pytest.fixture
async def cramped(connect: Connect) -> Bus:
    """On a broker that keeps about ten chunks of a log."""
    return await connect(max_log_bytes=4096)


async def crowd_out(bus: Bus) -> None:
    """Another request's records push everything of "r" out of the log."""
    writer = await bus.writer(CODES, "crowd", 1)
    for start in range(0, 20 * STEP, STEP):
        await writer.put(codes(start, start + STEP, "crowd"))
    await writer.end(End("crowd", writer.position, "ok"))
    await writer.close()


async def test_a_log_that_a_full_store_dropped_goes_on(cramped: Bus) -> None:
    writer = await cramped.writer(CODES, "r", 1)
    await put(writer, 3)
    await committed(cramped, 3)
    await crowd_out(cramped)
    assert await cramped.log(CODES, "r").last() is None
    await put(writer, 1)
    await finish(writer)
    tail = await cramped.log(CODES, "r").last()
    assert tail is not None
    assert isinstance(tail.record, End)


async def test_a_dropped_log_keeps_its_fence(cramped: Bus) -> None:
    first = await cramped.writer(CODES, "r", 1)
    await put(first, 3)
    await committed(cramped, 3)
    await crowd_out(cramped)
    second = await cramped.writer(CODES, "r", 2)
    assert second.position == 0  # nobody can know better
    with pytest.raises(Fenced):
        await finish(first)
    await finish(second)


async def test_a_successor_does_with_what_a_full_store_left_of_the_beginning(cramped: Bus) -> None:
    first = await cramped.writer(CODES, "r", 1)
    await put(first, 20)
    await committed(cramped, 20)
    second = await cramped.writer(CODES, "r", 2)
    assert second.position == 20 * STEP
    restored = positions(list(second.restored))
    assert restored[0] > 0
    assert restored == list(range(restored[0], 20 * STEP))
    await finish(second)


async def test_a_stream_that_does_not_answer_is_not_taken_for_an_empty_one(bus: Bus) -> None:
    assert await bus.log(CODES, "r").read(0) == []
    await bus.link.jetstream.delete_stream(bus.link.name(CODES.stream))
    with pytest.raises(Unreachable):
        await bus.log(CODES, "r").read(0)


async def test_a_cancellation_while_leaving_leaves_no_subscription(bus: Bus) -> None:
    reader = bus.reader(CODES, "r1")
    await reader.__aenter__()
    leaving = asyncio.create_task(reader.__aexit__(None, None, None))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    with pytest.raises(NoResponders):
        await bus.link.request(CODES.live("r1"), b"", 5.0)


async def test_a_reader_that_was_left_is_no_garbage_for_the_collector(bus: Bus, other: Bus) -> None:
    writer = await bus.writer(CODES, "r", epoch=1)
    await put(writer, 2)
    await finish(writer)
    gc.disable()
    try:
        async with other.reader(CODES, "r") as reader:
            await drain(reader)
        left = weakref.ref(reader)
        del reader
        await other.link.client.flush()  # the subscriptions' own tasks end meanwhile
        assert left() is None
    finally:
        gc.enable()
