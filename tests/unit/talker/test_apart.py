"""An engine in another process goes away, forgets and is measured; test_service.py has the rest."""

import asyncio

import pytest

from talker.service import Talker
from tests.unit.talker.conftest import Halves
from tests.unit.talker.test_parking import QUICK, taken
from tests.unit.talker.test_service import SENTENCE, job, last, later_text, spoken, talked
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import Bus
from ttscommon.cluster.jobs import Claims
from ttscommon.engine.runtime import Stopped
from ttscommon.wire.messages import CodecChunk
from ttscommon.wire.pieces import unmarked
from ttscommon.wire.subjects import CODES


async def test_text_that_comes_later_is_spoken_from_another_slot(bus: Bus, halves: Halves) -> None:
    claims = Claims(1, 1)
    current = job(text_final=False)
    current.claims = taken(claims)
    speaking = asyncio.create_task(talked(bus, halves.edge, current, QUICK))
    await until(lambda: bool(claims.free))
    await later_text(bus, "and more")
    assert (await speaking)[0] == spoken(len(SENTENCE + "and more"))


async def test_an_engine_that_goes_away_leaves_its_jobs_to_others(bus: Bus, halves: Halves) -> None:
    died = asyncio.Event()
    loop = asyncio.get_running_loop()
    halves.edge._died = lambda: loop.call_soon_threadsafe(died.set)
    speaking = asyncio.create_task(Talker(bus, halves.edge).handle(job(text_final=False)))
    async with bus.reader(CODES, "r1") as reader:
        await asyncio.wait_for(anext(reader), TIMEOUT_S)
    halves.parts()
    with pytest.raises(Stopped):
        await asyncio.wait_for(speaking, TIMEOUT_S)
    await asyncio.wait_for(died.wait(), TIMEOUT_S)
    assert isinstance(await last(bus), CodecChunk)


async def test_what_was_read_is_forgotten_with_its_request(halves: Halves) -> None:
    def read() -> int:
        prepared = halves.edge.family.prepare(job().request)
        units = list(prepared.read(unmarked(SENTENCE, (), ()), final=True))
        assert len(halves.host._held) == 1
        return len(units)

    assert await asyncio.to_thread(read)
    await until(lambda: not halves.host._held)


async def test_an_edge_knows_what_its_engine_measures(bus: Bus, halves: Halves) -> None:
    turned, edge = asyncio.Event(), halves.edge
    loop = asyncio.get_running_loop()

    def turn() -> None:
        loop.call_soon_threadsafe(turned.set)

    edge._beat = turn
    steps: list[str] = []
    edge.on_step = lambda took_s, keys: steps.extend(keys)
    await talked(bus, edge, job())
    await asyncio.wait_for(turned.wait(), TIMEOUT_S)
    await until(lambda: bool(edge.step_seconds))
    assert set(edge.step_seconds) == set(halves.engine.step_seconds)
    assert edge.kv_positions == halves.engine.kv_positions
    assert edge.slowed >= 1.0
    assert set(steps) == {"r1"}
