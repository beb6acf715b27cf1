"""A broker's client, and an engine that takes no time."""

from collections.abc import Iterator

import pytest

from ttscommon.process.metrics import Metrics
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.engine.engine import Engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(FakeCodec("m", DecodeCurve(0.0, 0.0, 0.0)), slots=8, metrics=Metrics())
    engine.start()
    yield engine
    engine.stop()
