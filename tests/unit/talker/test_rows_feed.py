"""A talker and rows that another service produces: late, lost, come back, given up."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from talker.engine.engine import Engine
from talker.text_feed import TextTiming
from tests.connections import Connect
from tests.unit.talker.test_parking import QUICK, taken
from tests.unit.talker.test_service import job, last, talked
from tests.unit.ttsfamilies.qwen3_omni.tiny import tiny
from ttscommon.bus import Bus, LogWriter
from ttscommon.cluster.jobs import Claims
from ttscommon.cluster.worker import Job
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import CodecChunk, End, RowsPiece, Sampling
from ttscommon.wire.subjects import CODES, TEXT
from ttscommon.wire.tensors import FloatRows
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.qwen3_omni.family import Qwen3Omni

FRAMES = 14
ROWS = 8
CONTEXT = 3


@pytest.fixture
def model() -> Qwen3Omni:
    return tiny(ending=0.0)


@pytest.fixture
def engine(model: Qwen3Omni) -> Iterator[Engine]:
    """Wrapped as it is served."""
    engine = Engine(ServedFamily(model), slots=2, blocks=64, metrics=Metrics())
    engine.start()
    yield engine
    engine.stop()


def rows_job(epoch: int = 1) -> Job:
    greedy = Sampling(temperature=0.0, subtalker_temperature=0.0, max_new_tokens=FRAMES + 1)
    return job(epoch, text="", text_final=False, rows=True, sampling=greedy)


def pieces(model: Qwen3Omni) -> list[FloatRows]:
    """A prompt, and a row a token."""
    width = model.spec.row_width
    values = np.random.default_rng(4).standard_normal((CONTEXT + ROWS, width)).astype(np.float32)
    said = [FloatRows.of("said", values[i : i + 1], "bf16") for i in range(CONTEXT, CONTEXT + ROWS)]
    return [FloatRows.of("context", values[:CONTEXT], "bf16"), *said]


async def write(writer: LogWriter, rows: list[FloatRows]) -> None:
    for one in rows:
        await writer.put(RowsPiece("r1", writer.position, one))


async def whole(connect: Connect, engine: Engine, model: Qwen3Omni) -> list[list[int]]:
    """The frames of all rows, which were there from the first."""
    bus = await connect()
    writer = await bus.writer(TEXT, "r1", 1)
    await write(writer, pieces(model))
    await writer.end(End("r1", writer.position, "ok"))
    await writer.close()
    frames, _, end = await talked(bus, engine, rows_job())
    assert (len(frames), end.outcome) == (FRAMES, "ok")
    for log in (TEXT, CODES):
        await bus.log(log, "r1").purge()
    return frames


async def spoken(bus: Bus, frames: int) -> None:
    """Return when so many frames are in the log."""
    seen = 0
    async with asyncio.timeout(60), bus.reader(CODES, "r1") as reader:
        async for record in reader:
            seen = record.end if isinstance(record, CodecChunk) else seen
            if seen >= frames:
                return


async def ended(
    thinker: LogWriter, work: asyncio.Task[tuple[list[list[int]], list[CodecChunk], End]]
) -> list[list[int]]:
    """The frames of a job whose rows are complete now."""
    await thinker.end(End("r1", thinker.position, "ok"))
    frames, _, end = await work
    await thinker.close()
    assert end.outcome == "ok"
    return frames


async def test_it_speaks_before_its_thinker_has_ended_and_waits_for_each_row(
    connect: Connect, engine: Engine, model: Qwen3Omni
) -> None:
    wanted = await whole(connect, engine, model)
    bus, claims, (context, *said) = await connect(), Claims(1, 1), pieces(model)
    current = rows_job()
    current.claims = taken(claims)
    work = asyncio.create_task(talked(bus, engine, current, QUICK))
    thinker = await bus.writer(TEXT, "r1", 1)
    await write(thinker, [context])
    for number, row in enumerate(said, 1):
        await write(thinker, [row])
        await spoken(bus, number)  # a frame a row, and no more: the next would need another
    assert (await last(bus)).end == ROWS
    assert await ended(thinker, work) == wanted
    assert engine.idle


async def test_where_thinker_and_talker_die_their_successors_go_on_where_the_logs_are(
    connect: Connect, engine: Engine, model: Qwen3Omni
) -> None:
    wanted, rows = await whole(connect, engine, model), pieces(model)
    bus = await connect()
    work = asyncio.create_task(talked(bus, engine, rows_job(), QUICK))
    lost = await bus.writer(TEXT, "r1", 1)
    await write(lost, rows[:4])
    await lost.settle()
    await lost.release()  # it wrote no end
    await spoken(bus, 3)
    back = await bus.writer(TEXT, "r1", 2, restore=False)
    assert back.position == CONTEXT + 3
    await write(back, rows[4:6])
    await spoken(bus, 5)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    again = asyncio.create_task(talked(bus, engine, rows_job(epoch=2), QUICK))
    await write(back, rows[6:])
    assert await ended(back, again) == wanted


@pytest.mark.parametrize("said", ["nothing", "that it failed"])
async def test_rows_that_are_never_complete_are_an_error_and_no_end_of_text(
    bus: Bus, engine: Engine, model: Qwen3Omni, said: str
) -> None:
    rows = pieces(model)
    thinker = await bus.writer(TEXT, "r1", 1)
    await write(thinker, rows[:5])
    if said != "nothing":
        await thinker.end(End("r1", thinker.position, "error", "internal", "out of memory"))
    await thinker.settle()
    timing = TextTiming(timeout_s=1.0, park_s=0.05)
    frames, _, end = await talked(bus, engine, rows_job(), timing)
    assert (end.outcome, end.code) == ("error", "input_lost")
    assert len(frames) <= 4  # those whose rows there were
    assert ("out of memory" in end.message) == (said != "nothing")
    await thinker.release()
    assert engine.idle


async def test_rows_without_anything_said_are_nothing_to_say(
    bus: Bus, engine: Engine, model: Qwen3Omni
) -> None:
    thinker = await bus.writer(TEXT, "r1", 1)
    await write(thinker, pieces(model)[:1])
    await thinker.end(End("r1", thinker.position, "ok"))
    await thinker.close()
    assert (await talked(bus, engine, rows_job()))[2].code == "nothing_to_say"
