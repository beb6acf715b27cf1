"""How far a writer of audio may run ahead of its reader."""

import asyncio

import numpy as np
import pytest

from tests.waits import TIMEOUT_S, until
from ttscommon.bus import AudioReader, AudioWriter, Bus
from ttscommon.bus.logs.credit import Credit, Grants, GrantTuning
from ttscommon.bus.logs.repair import ReaderTuning
from ttscommon.bus.logs.takeover import WriterTuning
from ttscommon.wire.messages import AudioChunk, End, Position, Tensor
from ttscommon.wire.repairs import CreditGrant
from ttscommon.wire.subjects import AUDIO

STEP = 1000
CREDIT = 8 * 2 * STEP


async def writing(bus: Bus, epoch: int = 1, **tuning: float) -> AudioWriter:
    told = WriterTuning(credit_bytes=CREDIT, **tuning)  # type: ignore[arg-type]
    writer = AudioWriter(bus.log(AUDIO, "r"), epoch, tuning=told)
    await writer.open(restore=False)
    return writer


def reading(bus: Bus, start: int = 0) -> AudioReader:
    tuning = ReaderTuning(credit_bytes=CREDIT, idle_first_s=0.1, idle_most_s=0.1)
    fresh = not start
    return AudioReader(bus.log(AUDIO, "r"), bus.queue, start, fresh=fresh, tuning=tuning)


async def produce(writer: AudioWriter, chunks: int) -> None:
    """As a vocoder does: what nobody takes is not made."""
    while writer.position < chunks * STEP:
        await writer.room(writer.position)
        samples = np.arange(writer.position, writer.position + STEP).astype(np.int16)
        await writer.put(AudioChunk("r", writer.position, 16_000, Tensor.of(samples)))
    await writer.end(End("r", writer.position, "ok"))
    await writer.close()


async def hear(reader: AudioReader, chunks: int) -> list[int]:
    """The next chunks; a chunk that was cut is one."""
    heard: list[int] = []
    async with asyncio.timeout(10):
        for _ in range(chunks):
            record = await anext(reader)
            assert isinstance(record, AudioChunk)
            assert 2 * (reader.position - record.end) <= CREDIT * 5 // 4
            heard += record.pcm.array().tolist()
    return heard


def test_a_reader_that_has_told_nothing_takes_the_credit_and_then_its_latest_word_counts() -> None:
    credit = Credit(200)
    assert credit.limit == 100
    credit.begin(50)
    assert credit.limit == 150
    credit.heed(CreditGrant(900))
    credit.heed(CreditGrant(300))
    credit.begin(700)
    assert credit.limit == 300


async def test_a_writer_stops_at_its_credit_and_goes_on_with_half_of_it(bus: Bus) -> None:
    async with reading(bus) as reader:
        writer = await writing(bus)
        work = asyncio.create_task(produce(writer, 30))
        await until(lambda: writer.position == 8 * STEP)
        await hear(reader, 3)
        assert not await writer.room(writer.position, 0.05)
        await hear(reader, 1)
        await until(lambda: writer.position == 12 * STEP)
        heard = await hear(reader, 26)
        await work
    assert heard == np.arange(4 * STEP, 30 * STEP).astype(np.int16).tolist()


async def test_a_lost_grant_is_told_again(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[CreditGrant] = []
    heed = Credit.heed

    def deaf(credit: Credit, grant: CreditGrant) -> None:
        if len(lost) < 2:
            lost.append(grant)
            raise ValueError("lost")
        heed(credit, grant)

    monkeypatch.setattr(Credit, "heed", deaf)
    async with reading(bus) as reader:
        reader._grants._tuning = GrantTuning(answer_s=0.02, rest_s=0.01)
        writer = await writing(bus)
        work = asyncio.create_task(produce(writer, 12))
        await until(lambda: writer.position == 8 * STEP)
        await hear(reader, 4)
        await until(lambda: writer.position == 12 * STEP)
        await work
    assert len(lost) == 2


async def test_where_nobody_writes_a_reader_does_not_tell_for_ever(bus: Bus) -> None:
    grants = Grants(bus.link, AUDIO.nack("r"), 0, CREDIT)
    grants.advance(5 * STEP)
    assert grants._telling is not None
    await asyncio.wait_for(grants._telling, TIMEOUT_S)
    grants.advance(6 * STEP)
    assert grants._telling.done()  # it rests
    await grants.close()


async def test_of_two_readers_the_one_that_reads_has_its_way_and_loses_nothing(bus: Bus) -> None:
    """One that was superseded and has not let go yet stands elsewhere, and takes nothing."""
    async with reading(bus, 3 * STEP) as stale:
        writer = await writing(bus)
        await writer.begin(Position("r", 3 * STEP))
        work = asyncio.create_task(produce(writer, 40))
        await hear(stale, 4)
        async with reading(bus, 5 * STEP) as reader:
            stale._grants.repeat()
            heard = await hear(reader, 35)
        await work
    assert heard == np.arange(5 * STEP, 40 * STEP).astype(np.int16).tolist()


async def test_a_writer_that_is_not_wanted_knows_when_it_is_again(bus: Bus) -> None:
    async with reading(bus) as reader:
        writer = await writing(bus)
        work = asyncio.create_task(produce(writer, 30))
        await until(lambda: writer.position == 8 * STEP)
        work.cancel()
        wanted = asyncio.create_task(writer.wanted())
        await hear(reader, 4)
        assert await asyncio.wait_for(wanted, TIMEOUT_S) == Position("r", 8 * STEP)
    await writer.release()


async def test_a_writer_that_nobody_hears_any_more_is_told_so(bus: Bus) -> None:
    writer = await writing(bus, listener_s=0.05, offer_s=0.05)
    async with reading(bus):
        work = asyncio.create_task(produce(writer, 30))
        await until(lambda: writer.position == 8 * STEP)
        work.cancel()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.wanted(), 0.3)
    assert await asyncio.wait_for(writer.wanted(), TIMEOUT_S) is None
    await writer.release()


async def test_to_begin_again_grants_nothing(bus: Bus) -> None:
    writer = await writing(bus)
    await writer.begin(Position("r", 5 * STEP))
    assert not await writer.room(8 * STEP, 0.01)
    await writer.release()
    successor = await writing(bus, 2)
    await successor.begin(Position("r", 5 * STEP))
    assert await successor.room(12 * STEP, 0.01)
    assert not await successor.room(13 * STEP, 0.01)
    await successor.release()
