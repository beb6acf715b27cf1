"""A talker whose engine is in another process does what one does whose engine is its own."""

import asyncio
import socket
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import pytest

from talker.apart.edge import TalkerEdge
from talker.apart.host import TalkerHost
from talker.engine.engine import Engine
from talker.service import Talker
from tests.unit.talker.test_parking import QUICK, slot_of
from tests.unit.talker.test_service import SENTENCE, hear, job, queued, spoken
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import Bus
from ttscommon.cluster.jobs import Claims
from ttscommon.engine.runtime import Stopped
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import Cancel, CodecChunk, End, Tensor, TextPiece
from ttscommon.wire.pieces import unmarked
from ttscommon.wire.subjects import CODES, TEXT
from ttsfamilies.fake.talker import FakeModel, StepCurve


def shutdown(connection: Connection) -> None:
    """End a line as a process's death does, also for who reads it just now."""
    with socket.socket(fileno=connection.fileno()) as end:
        end.shutdown(socket.SHUT_RDWR)
        end.detach()


def _called(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


class Halves(NamedTuple):
    host: TalkerHost
    edge: TalkerEdge
    engine: Engine
    connection: Connection

    def parts(self) -> None:
        """The engine's process is gone: nothing is behind the line any more."""
        shutdown(self.connection)  # ends both: the readers then close their own


@pytest.fixture
def host() -> Iterator[Halves]:
    here, there = Pipe()
    edge, host = TalkerEdge(there), TalkerHost(here, lambda: None)
    engine = Engine(
        FakeModel("m", StepCurve(0.0, 0.0, 0.0)), slots=8, metrics=Metrics(), beat=host.beat
    )
    host.serve(engine)
    edge.build(Metrics(), beat=lambda: None, died=lambda: None)
    yield Halves(host, edge, engine, here)
    host.close()
    engine.stop()


@pytest.fixture
def edge(host: Halves) -> TalkerEdge:
    return host.edge


async def handled(bus: Bus, edge: TalkerEdge, **fields: Any) -> None:
    await asyncio.wait_for(Talker(bus, edge).handle(job(**fields)), TIMEOUT_S)


async def test_text_becomes_the_same_frames(bus: Bus, edge: TalkerEdge) -> None:
    await handled(bus, edge)
    frames, _, end = await hear(bus)
    assert frames == spoken(len(SENTENCE))
    assert (end.outcome, await queued(bus)) == ("ok", 1)


async def test_a_successor_goes_on_with_the_next_frame(bus: Bus, edge: TalkerEdge) -> None:
    whole = np.array(spoken(len(SENTENCE)), np.int16)
    dead = await bus.writer(CODES, "r1", 1)
    await dead.put(CodecChunk("r1", 0, {"codes": Tensor.of(whole[:7])}))
    await dead.close()
    await handled(bus, edge, epoch=2)
    assert (await hear(bus))[0] == whole.tolist()


async def test_text_that_comes_later_is_spoken_from_another_slot(
    bus: Bus, edge: TalkerEdge
) -> None:
    claims = Claims(1, 1)
    current = job(text="Hello ", text_final=False)
    current.slot = slot_of(claims)
    speaking = asyncio.create_task(Talker(bus, edge, QUICK).handle(current))
    await until(lambda: bool(claims.free))
    typist = await bus.writer(TEXT, "r1", 1)
    await typist.put(TextPiece("r1", 0, "to you all."))
    await typist.end(End("r1", 11, "ok"))
    await asyncio.wait_for(speaking, TIMEOUT_S)
    await typist.close()
    assert len((await hear(bus))[0]) == len(spoken(len("Hello to you all.")))


async def test_cancel_ends_it(bus: Bus, edge: TalkerEdge) -> None:
    current = job(text_final=False)
    speaking = asyncio.create_task(Talker(bus, edge).handle(current))
    async with bus.reader(CODES, "r1") as reader:
        await asyncio.wait_for(anext(reader), TIMEOUT_S)
    current.control(Cancel("r1"))
    await asyncio.wait_for(speaking, TIMEOUT_S)
    assert (await hear(bus))[2].outcome == "cancelled"


async def test_what_the_model_refuses_is_the_request_s_end(bus: Bus, edge: TalkerEdge) -> None:
    await handled(bus, edge, voice="hal")
    end = (await hear(bus))[2]
    assert (end.outcome, end.code, end.param) == ("error", "unknown_voice", "voice")


async def test_an_engine_that_goes_away_leaves_its_jobs_to_others(bus: Bus, host: Halves) -> None:
    died = asyncio.Event()
    loop = asyncio.get_running_loop()
    host.edge._died = lambda: loop.call_soon_threadsafe(died.set)
    speaking = asyncio.create_task(Talker(bus, host.edge).handle(job(text_final=False)))
    async with bus.reader(CODES, "r1") as reader:
        await asyncio.wait_for(anext(reader), TIMEOUT_S)
    host.parts()
    with pytest.raises(Stopped):
        await asyncio.wait_for(speaking, TIMEOUT_S)
    await asyncio.wait_for(died.wait(), TIMEOUT_S)
    tail = await bus.log(CODES, "r1").last()
    assert tail is not None
    assert not isinstance(tail.record, End)


async def test_what_was_read_is_forgotten_with_its_request(host: Halves) -> None:
    def read() -> int:
        prepared = host.edge.family.prepare(job().request)
        units = list(prepared.read(unmarked(SENTENCE, (), ()), final=True))
        assert len(host.host._held) == 1
        return len(units)

    assert await asyncio.to_thread(read)
    await until(lambda: not host.host._held)


async def test_an_edge_knows_what_its_engine_measures(bus: Bus, host: Halves) -> None:
    turned = asyncio.Event()
    loop = asyncio.get_running_loop()
    host.edge._beat = partial(_called, loop, turned)
    steps: list[str] = []
    host.edge.on_step = lambda took_s, keys: steps.extend(keys)
    await handled(bus, host.edge)
    await asyncio.wait_for(turned.wait(), TIMEOUT_S)
    await until(lambda: bool(host.edge.step_seconds))
    assert set(host.edge.step_seconds) == set(host.engine.step_seconds)
    assert host.edge.kv_positions == host.engine.kv_positions
    assert host.edge.slowed >= 1.0
    assert set(steps) == {"r1"}
