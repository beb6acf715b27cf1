"""What a codec in another process makes of a voice; test_service.py has the rest."""

import asyncio

import numpy as np
import pytest

from tests.unit.vocoder.conftest import edge_of
from tests.unit.vocoder.test_service import job
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec


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


async def test_a_codec_that_makes_nothing_of_a_voice_is_not_asked() -> None:
    with edge_of(Unconditioned("m", DecodeCurve())) as edge:
        assert not edge.facts.conditioned
        assert edge.prefix(job().request) is None
        assert edge.conditions(job().request) is None


async def test_what_a_codec_makes_of_a_voice_and_what_it_refuses() -> None:
    with edge_of(Conditioned("m", DecodeCurve())) as edge:
        made = await asyncio.to_thread(edge.prefix, job().request)
        assert made is not None
        assert made["codes"].tolist() == np.ones((2, 4)).tolist()
        with pytest.raises(BadRequest, match="no such voice"):
            await asyncio.to_thread(edge.prefix, job(voice="hal").request)
