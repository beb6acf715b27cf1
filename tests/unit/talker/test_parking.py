"""Talkers and texts that come more slowly than they are spoken."""

import asyncio
from collections.abc import Iterator

import pytest

from talker.engine.engine import Engine
from talker.text_feed import TextTiming
from tests.unit.talker.test_service import SENTENCE, job, later_text, spoken, talked
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import Bus, LogWriter
from ttscommon.cluster.jobs import Claims
from ttscommon.cluster.worker import Job
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import Cancel, CodecChunk, End, TextPiece
from ttscommon.wire.subjects import CODES, TEXT
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve

QUICK = TextTiming(park_s=0.05)
WORDS = ("and then ", "some more.")

Work = asyncio.Task[tuple[list[list[int]], list[CodecChunk], End]]


@pytest.fixture(params=[False, True], ids=["no cache", "cache"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    model = FakeModel("m", StepCurve(0.0, 0.0, 0.0), manner=Manner(cached=request.param))
    engine = Engine(model, slots=1, blocks=64, metrics=Metrics())
    engine.start()
    yield engine
    assert engine.idle
    engine.stop()


def taken(claims: Claims) -> Claims:
    """One of its slots is."""
    assert claims.take()
    return claims


async def write(writer: LogWriter, text: str) -> None:
    await writer.put(TextPiece("r1", writer.position, text))


def begun(
    bus: Bus, engine: Engine, claims: Claims, timing: TextTiming = QUICK, epoch: int = 1
) -> tuple[Job, Work]:
    """A job whose text goes on."""
    current = job(epoch, text_final=False)
    current.claims = taken(claims)
    return current, asyncio.create_task(talked(bus, engine, current, timing))


async def parked(bus: Bus, engine: Engine, epoch: int = 1) -> tuple[Claims, Job, Work]:
    claims = Claims(1, 1)
    current, work = begun(bus, engine, claims, epoch=epoch)
    await until(lambda: claims.parked == 1)
    return claims, current, work


async def test_a_stream_that_waits_for_text_leaves_its_slot_to_others_and_says_the_same(
    bus: Bus, engine: Engine
) -> None:
    claims, _, work = await parked(bus, engine)
    typist = await bus.writer(TEXT, "r1", 1)
    for word in WORDS:
        await until(lambda: claims.parked == 1)
        assert engine.idle  # neither slot nor blocks are held
        assert claims.free == 1
        await write(typist, word)
        await until(lambda: claims.parked == 0)
    await typist.end(End("r1", typist.position, "ok"))
    await typist.close()
    frames, _, end = await work
    assert (frames, end.outcome) == (spoken(len(SENTENCE) + sum(map(len, WORDS))), "ok")


async def test_text_that_goes_on_while_all_slots_are_taken_waits_for_one(
    bus: Bus, engine: Engine
) -> None:
    claims, _, work = await parked(bus, engine)
    taken(claims)
    await later_text(bus, "more")
    assert not work.done()
    assert engine.idle
    claims.give_back()
    assert (await work)[0] == spoken(len(SENTENCE) + 4)


async def test_a_parked_stream_can_be_cancelled(bus: Bus, engine: Engine) -> None:
    _, current, work = await parked(bus, engine)
    current.control(Cancel("r1"))
    assert (await work)[2].outcome == "cancelled"


async def test_text_that_never_comes_ends_a_parked_stream_as_any_other(
    bus: Bus, engine: Engine
) -> None:
    claims = Claims(1, 1)
    frames, _, end = await begun(bus, engine, claims, TextTiming(0.4, park_s=0.05))[1]
    assert (frames, end.outcome) == (spoken(len(SENTENCE)), "ok")
    assert claims.parked == 0


async def test_a_stream_keeps_its_slot_where_as_many_wait_as_may(bus: Bus, engine: Engine) -> None:
    """And not for good, as where its gateway died."""
    claims = Claims(1, 0)
    _, work = begun(bus, engine, claims, TextTiming(0.4, park_s=0.02))
    async with bus.reader(CODES, "r1") as reader:
        said = 0
        while said < len(spoken(len(SENTENCE))):
            record = await anext(reader)
            assert isinstance(record, CodecChunk)
            said = record.end
    assert claims.free == 0
    assert (await work)[2].outcome == "ok"


async def test_a_successor_of_a_worker_that_died_with_a_parked_stream_says_the_rest(
    bus: Bus, engine: Engine
) -> None:
    _, _, dying = await parked(bus, engine)
    dying.cancel()
    await asyncio.wait({dying})
    _, _, work = await parked(bus, engine, epoch=2)
    await later_text(bus, "more")
    frames, _, end = await work
    assert (frames, end.outcome) == (spoken(len(SENTENCE) + 4), "ok")


async def test_an_engine_that_stops_hands_on_the_streams_that_wait_too(
    bus: Bus, engine: Engine
) -> None:
    _, _, work = await parked(bus, engine)
    engine.stop()
    with pytest.raises(Exception, match="stopped"):
        await asyncio.wait_for(work, TIMEOUT_S)
