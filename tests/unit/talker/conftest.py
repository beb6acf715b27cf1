"""An engine that takes no time, in this process and in another one."""

import socket
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple

import pytest

from talker.apart.edge import TalkerEdge
from talker.apart.host import TalkerHost
from talker.engine.engine import Engine
from talker.engine.interface import SpeechEngine
from ttscommon.process.metrics import Metrics
from ttsfamilies.fake.talker import FakeModel, StepCurve


def quick(**changes: object) -> Engine:
    model = FakeModel("m", StepCurve(0.0, 0.0, 0.0))
    return Engine(model, slots=8, metrics=Metrics(), **changes)  # type: ignore[arg-type]


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = quick()
    engine.start()
    yield engine
    engine.stop()


class Halves(NamedTuple):
    host: TalkerHost
    edge: TalkerEdge
    engine: Engine
    connection: Connection

    def parts(self) -> None:
        """The engine's process is gone: nothing is behind the line any more.

        Ends it as a process's death does, also for who reads it just now.
        """
        with socket.socket(fileno=self.connection.fileno()) as end:
            end.shutdown(socket.SHUT_RDWR)
            end.detach()


@pytest.fixture
def halves() -> Iterator[Halves]:
    here, there = Pipe()
    edge, host = TalkerEdge(there), TalkerHost(here, lambda: None)
    engine = quick(beat=host.beat)
    host.serve(engine)
    edge.build(Metrics(), beat=lambda: None, died=lambda: None)
    yield Halves(host, edge, engine, here)
    host.close()
    engine.stop()


@pytest.fixture(params=["here", "apart"])
def anywhere(request: pytest.FixtureRequest) -> SpeechEngine:
    """An engine, and the edge of one."""
    if request.param == "here":
        return request.getfixturevalue("engine")
    return request.getfixturevalue("halves").edge
