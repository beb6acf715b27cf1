"""Vocoders and listeners who take less than they could be given."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.vocoder.test_service import chunk, codes, ended, hear, job, offline, write_codes
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import AudioWriter, Bus
from ttscommon.bus.logs.credit import CREDIT_BYTES
from ttscommon.bus.logs.takeover import WriterTuning
from ttscommon.cluster.jobs import Claims, Job
from ttscommon.wire.messages import AudioChunk, Cancel, End
from ttscommon.wire.subjects import AUDIO, CODES
from vocoder import decoding, vocode_job
from vocoder.engine.engine import Engine
from vocoder.service import Vocoder


class ParkingPlace(Claims):
    """A worker's slot."""

    def __init__(self) -> None:
        self.parked = False
        self.times = 0
        self.room = asyncio.Event()
        self.room.set()

    parkable = True

    def lend(self) -> bool:
        """No other job waits for it."""
        return False

    def park(self) -> bool:
        self.parked = True
        self.times += 1
        return True

    async def unpark(self) -> None:
        await self.room.wait()
        self.parked = False


# Three times as long as what a reader takes at once.
LONG = 3 * CREDIT_BYTES // 2 // 640


@pytest.fixture
def parking(monkeypatch: pytest.MonkeyPatch) -> ParkingPlace:
    monkeypatch.setattr(decoding, "PARK_S", 0.05)
    return ParkingPlace()


async def test_a_listener_who_takes_nothing_more_has_its_stream_parked(
    bus: Bus, engine: Engine, parking: ParkingPlace
) -> None:
    sequence = codes(LONG)
    current = job()
    current.claims = parking
    async with bus.audio_reader("r1", fresh=True) as reader:
        work = asyncio.create_task(Vocoder(bus, engine, 10).handle(current))
        await write_codes(bus, sequence, step=25)
        await until(lambda: parking.parked and 2 * reader.position >= CREDIT_BYTES)
        assert engine.idle
        assert 2 * reader.position <= CREDIT_BYTES * 5 // 4 + 2 * 16_000  # the last is a long piece
        parking.room.clear()  # all slots are taken when the listener goes on
        half: list[int] = []
        while len(half) < CREDIT_BYTES // 3:
            record = await anext(reader)
            assert isinstance(record, AudioChunk)
            half += record.pcm.array().tolist()
        assert engine.idle
        parking.room.set()
        samples, words, end = await hear(reader)
        await asyncio.wait_for(work, TIMEOUT_S)
    assert half + samples == offline(sequence)
    assert words[-1] == f"w{LONG - 1}"
    assert end.outcome == "ok"
    assert parking.times >= 1
    assert engine.idle


@pytest.mark.parametrize("back", [True, False])
async def test_a_parked_stream_whose_listener_has_gone_ends_without_a_slot(
    bus: Bus,
    engine: Engine,
    parking: ParkingPlace,
    monkeypatch: pytest.MonkeyPatch,
    back: bool,
) -> None:
    monkeypatch.setattr(vocode_job, "LISTENER_S", 0.5 if back else 0.05)

    async def audio_writer(request_id: str, epoch: int, **_: Any) -> AudioWriter:
        tuning = WriterTuning(listener_s=0.05)
        writer = AudioWriter(bus.log(AUDIO, request_id), epoch, tuning=tuning)
        await writer.open(restore=False)
        return writer

    monkeypatch.setattr(bus, "audio_writer", audio_writer)
    sequence = codes(LONG)
    current = job()
    current.claims = parking
    async with bus.audio_reader("r1", fresh=True):
        work = asyncio.create_task(Vocoder(bus, engine, 10).handle(current))
        await write_codes(bus, sequence, step=25)
        await until(lambda: parking.parked)
    if back:
        async with bus.audio_reader("r1", LONG * 600) as reader:
            assert (await hear(reader))[0] == offline(sequence)[LONG * 600 :]
    await asyncio.wait_for(work, TIMEOUT_S)
    end = await ended(bus)
    assert (end.outcome, end.start) == ("ok", LONG * 640)
    assert engine.idle


def typing_job(parking: ParkingPlace) -> Job:
    request = replace(job().request, text_final=False)
    current = Job(request, 1, message=None)  # type: ignore[arg-type]
    current.claims = parking
    return current


async def test_a_stream_whose_text_is_late_is_parked_and_sounds_the_same(
    bus: Bus, engine: Engine, parking: ParkingPlace
) -> None:
    sequence = codes(60)
    async with bus.audio_reader("r1", fresh=True) as reader:
        work = asyncio.create_task(Vocoder(bus, engine, 10).handle(typing_job(parking)))
        writer = await bus.writer(CODES, "r1", 1)
        for start in range(0, 60, 20):
            for at in range(start, start + 20, 5):
                await writer.put(chunk(at, sequence[at : at + 5]))
            await until(lambda: parking.times > start // 20 and parking.parked and engine.idle)  # noqa: B023
        await writer.end(End("r1", 60, "ok"))
        await writer.close()
        samples, _, end = await hear(reader)
        await asyncio.wait_for(work, TIMEOUT_S)
    assert samples == offline(sequence)
    assert end.outcome == "ok"
    assert parking.times >= 3
    assert engine.idle


@pytest.mark.parametrize("typing", [False, True])
async def test_a_parked_stream_can_be_cancelled(
    bus: Bus, engine: Engine, parking: ParkingPlace, typing: bool
) -> None:
    """One whose codes are late, and one whose text is."""
    current = typing_job(parking) if typing else job()
    current.claims = parking
    async with bus.audio_reader("r1", fresh=True) as reader:
        work = asyncio.create_task(Vocoder(bus, engine, 10).handle(current))
        if not typing:
            await write_codes(bus, codes(LONG), step=25)
        await until(lambda: parking.parked)
        current.control(Cancel("r1"))
        await asyncio.wait_for(work, TIMEOUT_S)
        assert (await hear(reader))[2].outcome == "cancelled"


@pytest.mark.parametrize("typing", [True, False])
async def test_codes_that_stay_away_for_good_end_a_stream(
    bus: Bus, engine: Engine, parking: ParkingPlace, typing: bool
) -> None:
    """A text that is whole keeps its slot while its codes are late."""
    current = typing_job(parking) if typing else job()
    current.claims = parking
    async with bus.audio_reader("r1", fresh=True) as reader:
        await asyncio.wait_for(Vocoder(bus, engine, 0.3).handle(current), TIMEOUT_S)
        end = (await hear(reader))[2]
    assert (end.outcome, end.code) == ("error", "internal")
    assert parking.times == typing
    assert engine.idle
