"""Audio over a real broker: samples travel live, the log holds positions, the rest is asked for."""

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest.mock import AsyncMock

import numpy as np
import pytest

from tests.unit.ttscommon.bus.logs.helpers import drain, losing, never, settled
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import AudioReader, AudioWriter, Bus
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.logs.repair import ReaderTuning
from ttscommon.bus.logs.takeover import WriterTuning
from ttscommon.wire.errors import Fenced, LogGone
from ttscommon.wire.messages import (
    AudioChunk,
    Checkpoint,
    Chunk,
    End,
    Position,
    SpeechRequest,
    Tensor,
)
from ttscommon.wire.subjects import AUDIO, VOCODER

RATE = 16_000
STEP = 1000
REQUEST = SpeechRequest("r", "m", "v", "hello")


def audio(start: int, stop: int) -> AudioChunk:
    """Samples that tell their position, and a checkpoint that tells where the chunk ends."""
    samples = np.arange(start, stop).astype(np.int16)
    return AudioChunk("r", start, RATE, Tensor.of(samples), checkpoint=Checkpoint(stop // STEP))


async def put(writer: AudioWriter, chunks: int) -> None:
    for _ in range(chunks):
        await writer.put(audio(writer.position, writer.position + STEP))


def end_of(position: int) -> End:
    return End("r", position, "ok", request=REQUEST.for_remaking())


async def finish(writer: AudioWriter) -> None:
    await writer.end(end_of(writer.position))
    await writer.close()


def samples(records: Sequence[Chunk | End]) -> list[int]:
    chunks = [record.pcm.array() for record in records if isinstance(record, AudioChunk)]
    return np.concatenate(chunks).tolist() if chunks else []


def numbers(start: int, stop: int) -> list[int]:
    return np.arange(start, stop).astype(np.int16).tolist()


async def noted(bus: Bus, position: int) -> None:
    """Wait until the log has come to `position`."""

    async def come() -> bool:
        return (tail := await bus.log(AUDIO, "r").last()) is not None and (
            tail.record.end >= position
        )

    await until(come)


async def small(bus: Bus, **tuning: Any) -> AudioWriter:
    """A request's first writer, with figures of its own."""
    writer = AudioWriter(bus.log(AUDIO, "r"), 1, tuning=WriterTuning(**tuning))
    await writer.open(restore=False)
    return writer


async def test_the_log_holds_positions_seconds_apart_and_no_samples(bus: Bus, other: Bus) -> None:
    async with other.audio_reader("r") as reader:
        writer = await bus.audio_writer("r", 1)
        await put(writer, 100)
        await finish(writer)
        records = await drain(reader)
    assert samples(records) == numbers(0, 100 * STEP)
    logged = [each.record for each in await bus.log(AUDIO, "r").read(0)]
    assert [record.start for record in logged] == [STEP, 65 * STEP, 100_000]
    assert all(isinstance(record, Position) for record in logged[:-1])
    assert isinstance(logged[-1], End)


async def test_live_messages_lost_on_the_way_come_again(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(bus, monkeypatch, lambda number: number % 3 == 0)
    async with other.audio_reader("r") as reader:
        writer = await bus.audio_writer("r", 1)
        await put(writer, 30)
        hearing = asyncio.create_task(drain(reader))
        await until(lambda: reader.position >= 29 * STEP)
        await writer.end(end_of(writer.position))
        assert samples(await hearing) == numbers(0, 30 * STEP)
        await writer.close()


async def test_a_reader_that_is_slow_asks_for_what_it_had_no_room_for(bus: Bus, other: Bus) -> None:
    tuning = ReaderTuning(credit_bytes=8 * 2 * STEP, idle_first_s=0.05, idle_most_s=0.05)
    async with AudioReader(other.log(AUDIO, "r"), other.queue, tuning=tuning) as reader:
        writer = await bus.audio_writer("r", 1)
        await put(writer, 40)
        await until(lambda: reader.position == 10 * STEP)
        heard = []
        for number in range(40):
            assert reader.position <= (number + 10) * STEP
            heard.append(await asyncio.wait_for(anext(reader), TIMEOUT_S))
        await finish(writer)
        assert samples(heard + await drain(reader)) == numbers(0, 40 * STEP)


async def test_a_sample_that_left_the_window_is_sought(bus: Bus, other: Bus) -> None:
    writer = await small(bus, tail_bytes=4 * 2 * STEP)
    await put(writer, 10)
    await noted(bus, STEP)
    async with other.audio_reader("r", 2500) as reader:
        wanted = await asyncio.wait_for(writer.sought(), 10)
        assert wanted.start == 2500
        assert (await writer.begin(wanted)).frame == 1  # the log's last before it
        await writer.put(audio(2500, 4000))
        await put(writer, 2)
        await finish(writer)
        assert samples(await drain(reader)) == numbers(2500, 6000)


async def test_what_is_sent_again_is_not_logged_again(bus: Bus, other: Bus) -> None:
    writer = await bus.audio_writer("r", 1)
    await put(writer, 70)
    await writer.begin(Position("r", 0))
    await put(writer, 70)
    await finish(writer)
    logged = [each.record.start for each in await bus.log(AUDIO, "r").read(0)]
    assert logged == [STEP, 65 * STEP, 70 * STEP]


async def test_a_reader_further_ahead_waits_for_the_one_behind(bus: Bus, other: Bus) -> None:
    writer = await bus.audio_writer("r", 1)
    await writer.begin(Position("r", 1000))
    async with other.audio_reader("r", 5000) as ahead, other.audio_reader("r", 0) as behind:
        wanted = await asyncio.wait_for(writer.sought(), 10)
        assert wanted.start == 0
        await writer.begin(wanted)
        await put(writer, 8)
        await finish(writer)
        assert samples(await drain(ahead)) == numbers(5000, 8000)
        assert samples(await drain(behind)) == numbers(0, 8000)


async def test_a_successor_is_told_where_the_reader_stands(bus: Bus, other: Bus) -> None:
    async with bus.audio_reader("r") as reader:
        first = await bus.audio_writer("r", 1)
        await put(first, 3)
        await noted(bus, STEP)
        heard = [await anext(reader) for _ in range(3)]
        second = await other.audio_writer("r", 2)
        assert second.listener is not None
        assert second.listener.start == 3 * STEP  # the log says 1000
        assert (await second.begin(second.listener)).frame == 3
        with pytest.raises(Fenced):
            await finish(first)
        await put(second, 1)
        await finish(second)
        assert samples(heard + await drain(reader)) == numbers(0, 4 * STEP)


async def test_a_successor_begins_where_a_client_comes_back_later(bus: Bus, other: Bus) -> None:
    first = await bus.audio_writer("r", 1)
    await put(first, 70)
    await noted(bus, 65 * STEP)
    await first.release()
    second = await other.audio_writer("r", 2)
    assert second.listener is None
    hearing = asyncio.create_task(second.heard())
    async with bus.audio_reader("r", 66_567) as reader:
        listener = await asyncio.wait_for(hearing, 10)
        assert listener.start == 66_567
        assert (await second.begin(listener)).frame == 65
        await second.put(audio(66_567, 68_000))
        await finish(second)
        assert samples(await drain(reader)) == numbers(66_567, 68_000)


async def test_a_checkpoint_outlives_one_successor_after_another(bus: Bus, other: Bus) -> None:
    first = await bus.audio_writer("r", 1)
    await put(first, 3)
    await noted(bus, STEP)
    for epoch in (2, 3):  # the second finds nothing at the log's end but the first's Takeover
        writer = await other.audio_writer("r", epoch)
        assert (writer.position, writer.checkpoint.frame) == (STEP, 1)
        assert (await writer.begin(Position("r", 2 * STEP))).frame == 1
        await writer.release()
    await first.release()


@pytest.mark.own_broker
async def test_a_broker_killed_in_the_middle_loses_and_repeats_nothing(
    broker: Any, bus: Bus, other: Bus
) -> None:
    async with other.audio_reader("r") as reader:
        writer = await bus.audio_writer("r", 1)
        await put(writer, 5)
        await noted(bus, STEP)
        broker.children["broker"].kill()
        await put(writer, 20)
        hearing = asyncio.create_task(drain(reader))
        await until(lambda: reader.position >= 25 * STEP)
        await finish(writer)
        assert samples(await hearing) == numbers(0, 25 * STEP)


async def lost_tail(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer is gone, and its last chunks reached nobody."""
    losing(bus, monkeypatch, lambda number: number > 2)
    writer = await bus.audio_writer("r", 1)
    await put(writer, 5)
    await finish(writer)


async def test_an_end_that_reaches_a_reader_who_lacks_samples_has_them_made_again(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with other.audio_reader("r") as reader:
        reader.remake()
        await settled(other)
        await lost_tail(bus, monkeypatch)
        monkeypatch.undo()
        hearing = asyncio.create_task(drain(reader))
        await until(lambda: bus.queue.find(VOCODER, "r"))
        job = await bus.queue.find(VOCODER, "r")
        assert job is not None
        assert (job.request.remake, job.request.text) == (True, "")
        again = await bus.audio_writer("r", 1 << 20, fresh=False)
        assert again.remaking is not None
        assert again.listener is not None
        assert again.listener.start == 2 * STEP
        await again.begin(again.listener)
        await put(again, 3)
        await again.end(again.remaking)
        await again.close()
        assert samples(await hearing) == numbers(0, 5 * STEP)
    logged = [each.record for each in await bus.log(AUDIO, "r").read(0)]
    assert [isinstance(record, End) for record in logged] == [False, True]


async def test_nothing_is_made_again_for_a_reader_who_may_not_have_it(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lost_tail(bus, monkeypatch)
    log = other.log(AUDIO, "r")
    monkeypatch.setattr(log, "tail", looks := AsyncMock(wraps=log.tail))
    async with AudioReader(log, other.queue) as reader:
        await until(lambda: looks.await_count >= 3)
        assert reader.log_ended
        assert await bus.queue.find(VOCODER, "r") is None


async def test_audio_that_nobody_can_make_again_is_gone(bus: Bus, other: Bus) -> None:
    writer = await bus.audio_writer("r", 1)
    await put(writer, 2)
    await writer.end(End("r", writer.position, "ok"))
    await writer.close()
    async with other.audio_reader("r") as reader:
        reader.remake()
        with pytest.raises(LogGone):
            await drain(reader)


async def test_too_many_positions_that_wait_hold_the_producer_back(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestLog, "commit", never)
    writer = await small(bus, positions=2, position_s=STEP / RATE)
    await put(writer, 2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(put(writer, 1), 0.1)
    assert writer.position == 3 * STEP  # it was delivered all the same
    await writer.release()


async def test_malformed_messages_on_a_log_are_skipped(bus: Bus, other: Bus) -> None:
    async with other.audio_reader("r") as reader:
        await settled(other)
        writer = await bus.audio_writer("r", 1)
        await bus.link.send_raw(AUDIO.live("r"), b"\xc1 not msgpack")
        await bus.link.send_raw(AUDIO.nack("r"), b"not a number")
        await put(writer, 2)
        await finish(writer)
        assert samples(await drain(reader)) == numbers(0, 2 * STEP)


async def test_a_writer_that_let_go_keeps_no_sound(bus: Bus) -> None:
    writer = await bus.audio_writer("r", 1, fresh=True)
    await put(writer, 3)
    assert list(writer._sent.behind(0, 1 << 20))
    await finish(writer)
    assert not list(writer._sent.behind(0, 1 << 20))
