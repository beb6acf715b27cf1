"""An engine that takes no time, in this process and in another one."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe

import pytest

from ttscommon.process.metrics import Metrics
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.apart.edge import VocoderEdge
from vocoder.apart.host import VocoderHost
from vocoder.engine.engine import Engine
from vocoder.engine.interface import SoundEngine


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(FakeCodec("m", DecodeCurve(0.0, 0.0, 0.0)), slots=8, metrics=Metrics())
    engine.start()
    yield engine
    engine.stop()


@contextmanager
def edge_of(codec: Codec) -> Iterator[VocoderEdge]:
    """Of an engine of this codec."""
    here, there = Pipe()
    edge, host = VocoderEdge(there), VocoderHost(here, lambda: None)
    engine = Engine(codec, slots=4, metrics=Metrics())
    host.serve(engine)
    edge.build(Metrics(), beat=lambda: None, died=lambda: None)
    yield edge
    host.close()
    engine.stop()


@pytest.fixture(params=["here", "apart"])
def anywhere(request: pytest.FixtureRequest) -> Iterator[SoundEngine]:
    """An engine, and the edge of one."""
    if request.param == "here":
        yield request.getfixturevalue("engine")
    else:
        with edge_of(FakeCodec("m", DecodeCurve(0.0, 0.0, 0.0))) as edge:
            yield edge
