"""Talkers and texts that come more slowly than they are spoken."""

import asyncio
from collections.abc import Iterator

import pytest

from talker.engine.engine import Engine
from talker.service import Talker
from talker.text_feed import TextTiming
from tests.unit.talker.test_service import SENTENCE, hear, job, spoken
from tests.waits import until
from ttscommon.bus import Bus, LogWriter
from ttscommon.cluster.jobs import Claims, Slot
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import Cancel, CodecChunk, End, TextPiece
from ttscommon.wire.subjects import CODES, TEXT
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve

QUICK = TextTiming(park_s=0.05)
WORDS = ("and then ", "some more.")


@pytest.fixture(params=[False, True], ids=["no cache", "cache"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    model = FakeModel("m", StepCurve(0.0, 0.0, 0.0), manner=Manner(cached=request.param))
    engine = Engine(model, slots=1, blocks=64, metrics=Metrics())
    engine.start()
    yield engine
    engine.stop()


def slot_of(claims: Claims) -> Slot:
    assert claims.take()
    return Slot(claims)


async def write(writer: LogWriter, text: str) -> None:
    await writer.put(TextPiece("r1", writer.position, text))


async def test_a_stream_that_waits_for_text_leaves_its_slot_to_others_and_says_the_same(
    bus: Bus, engine: Engine
) -> None:
    claims = Claims(1, 1)
    current = job(text_final=False)
    current.slot = slot_of(claims)
    work = asyncio.create_task(Talker(bus, engine, QUICK).handle(current))
    typist = await bus.writer(TEXT, "r1", 1)
    for word in WORDS:
        await until(lambda: claims.parked == 1)
        assert engine.idle  # neither slot nor blocks are held
        assert claims.free == 1
        await write(typist, word)
        await until(lambda: claims.parked == 0)
    await typist.end(End("r1", typist.position, "ok"))
    await asyncio.wait_for(work, 15)
    await typist.close()
    frames, _, end = await hear(bus)
    assert frames == spoken(len(SENTENCE) + sum(map(len, WORDS)))
    assert end.outcome == "ok"
    assert engine.idle


async def test_text_that_goes_on_while_all_slots_are_taken_waits_for_one(
    bus: Bus, engine: Engine
) -> None:
    claims = Claims(1, 1)
    current = job(text_final=False)
    current.slot = slot_of(claims)
    work = asyncio.create_task(Talker(bus, engine, QUICK).handle(current))
    await until(lambda: claims.parked == 1)
    other = slot_of(claims)
    typist = await bus.writer(TEXT, "r1", 1)
    await write(typist, "more")
    await typist.end(End("r1", typist.position, "ok"))
    await typist.close()
    assert not work.done()
    assert engine.idle
    other.over()
    await asyncio.wait_for(work, 15)
    assert len((await hear(bus))[0]) == len(spoken(len(SENTENCE) + 4))


async def test_a_parked_stream_can_be_cancelled(bus: Bus, engine: Engine) -> None:
    claims = Claims(1, 1)
    current = job(text_final=False)
    current.slot = slot_of(claims)
    work = asyncio.create_task(Talker(bus, engine, QUICK).handle(current))
    await until(lambda: claims.parked == 1)
    current.control(Cancel("r1"))
    await asyncio.wait_for(work, 15)
    assert (await hear(bus))[2].outcome == "cancelled"
    assert engine.idle


async def test_text_that_never_comes_ends_a_parked_stream_as_any_other(
    bus: Bus, engine: Engine
) -> None:
    claims = Claims(1, 1)
    current = job(text_final=False)
    current.slot = slot_of(claims)
    timing = TextTiming(timeout_s=0.4, park_s=0.05)
    await asyncio.wait_for(Talker(bus, engine, timing).handle(current), 15)
    frames, _, end = await hear(bus)
    assert (frames, end.outcome) == (spoken(len(SENTENCE)), "ok")
    assert claims.parked == 0
    assert engine.idle


async def test_a_stream_keeps_its_slot_where_as_many_wait_as_may(bus: Bus, engine: Engine) -> None:
    claims = Claims(1, 0)
    current = job(text_final=False)
    current.slot = slot_of(claims)
    work = asyncio.create_task(Talker(bus, engine, TextTiming(0.4, park_s=0.02)).handle(current))
    async with bus.reader(CODES, "r1") as reader:
        said = 0
        while said < len(spoken(len(SENTENCE))):
            record = await anext(reader)
            assert isinstance(record, CodecChunk)
            said = record.end
    assert claims.free == 0
    await asyncio.wait_for(work, 15)
    assert (await hear(bus))[2].outcome == "ok"


async def test_a_successor_of_a_worker_that_died_with_a_parked_stream_says_the_rest(
    bus: Bus, engine: Engine
) -> None:
    claims = Claims(1, 1)
    dying = job(text_final=False)
    dying.slot = slot_of(claims)
    first = asyncio.create_task(Talker(bus, engine, QUICK).handle(dying))
    await until(lambda: claims.parked == 1)
    first.cancel()
    await asyncio.wait({first})
    current = job(epoch=2, text_final=False)
    current.slot = slot_of(after := Claims(1, 1))
    work = asyncio.create_task(Talker(bus, engine, QUICK).handle(current))
    await until(lambda: after.parked == 1)
    typist = await bus.writer(TEXT, "r1", 1)
    await write(typist, "more")
    await typist.end(End("r1", typist.position, "ok"))
    await typist.close()
    await asyncio.wait_for(work, 15)
    frames, _, end = await hear(bus)
    assert frames == spoken(len(SENTENCE) + 4)
    assert end.outcome == "ok"
    assert engine.idle


async def test_an_engine_that_stops_hands_on_the_streams_that_wait_too(
    bus: Bus, engine: Engine
) -> None:
    claims = Claims(1, 1)
    current = job(text_final=False)
    current.slot = slot_of(claims)
    work = asyncio.create_task(Talker(bus, engine, QUICK).handle(current))
    await until(lambda: claims.parked == 1)
    engine.stop()
    with pytest.raises(Exception, match="stopped"):
        await asyncio.wait_for(work, 15)
