"""A vocoder whose engine is in another process does what one does whose engine is its own."""

import asyncio
from collections.abc import Iterator
from multiprocessing import Pipe

import numpy as np
import pytest

from tests.unit.vocoder.test_service import codes, hear, job, offline, write_codes
from tests.waits import TIMEOUT_S
from ttscommon.bus import Bus
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.apart.edge import VocoderEdge
from vocoder.apart.host import VocoderHost
from vocoder.engine.engine import Engine
from vocoder.service import Vocoder


class Conditioned(FakeCodec):
    """A codec that makes something of a request's voice."""

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        if request.voice == "hal":
            raise BadRequest("no such voice", param="voice")
        frame: Array = np.ones((2, 4), np.int16)
        return {"codes": frame}


class Unconditioned(FakeCodec):
    """One that makes nothing of it, as most."""

    prefix = Codec.prefix


def edge_of(codec: FakeCodec) -> Iterator[VocoderEdge]:
    here, there = Pipe()
    edge, host = VocoderEdge(there), VocoderHost(here, lambda: None)
    engine = Engine(codec, slots=4, metrics=Metrics())
    host.serve(engine)
    edge.build(Metrics(), beat=lambda: None, died=lambda: None)
    yield edge
    host.close()
    engine.stop()


@pytest.fixture
def edge() -> Iterator[VocoderEdge]:
    yield from edge_of(FakeCodec("m", DecodeCurve()))


async def test_codes_become_the_same_samples(bus: Bus, edge: VocoderEdge) -> None:
    sequence = codes(40)
    await write_codes(bus, sequence)
    async with bus.audio_reader("r1", 0) as reader:
        await asyncio.wait_for(Vocoder(bus, edge, 10.0).handle(job()), TIMEOUT_S)
        samples, words, end = await hear(reader)
    assert samples == offline(sequence)
    assert words == [f"w{i}" for i in range(40)]
    assert end.outcome == "ok"


async def test_a_codec_that_makes_nothing_of_a_voice_is_not_asked() -> None:
    making = edge_of(Unconditioned("m", DecodeCurve()))
    edge = next(making)
    assert not edge.facts.conditioned
    assert edge.prefix(job().request) is None
    assert edge.conditions(job().request) is None
    next(making, None)


async def test_what_a_codec_makes_of_a_voice_and_what_it_refuses() -> None:
    making = edge_of(Conditioned("m", DecodeCurve()))
    edge = next(making)
    made = await asyncio.to_thread(edge.prefix, job().request)
    assert made is not None
    assert made["codes"].tolist() == np.ones((2, 4)).tolist()
    with pytest.raises(BadRequest, match="no such voice"):
        await asyncio.to_thread(edge.prefix, job(voice="hal").request)
    next(making, None)
