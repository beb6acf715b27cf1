"""Who hears what, and whose place is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats.errors
import numpy as np
import pytest

from gateway.errors import NotFound
from gateway.requests import ResumeTokens
from gateway.requests.listeners import Listeners, ListenersTuning
from gateway.settings import GatewaySettings
from tests.waits import TIMEOUT_S
from ttscommon.wire import subjects
from ttscommon.wire.messages import AudioChunk, End, Listening, Message, Tensor

QUICK = ListenersTuning(tell_s=0.01, look_s=0.001)


@dataclass
class Voice:
    """A request as it is heard here."""

    request_id: str
    reported_s: float = float("-inf")
    superseded: int = 0

    def supersede(self) -> None:
        self.superseded += 1


@dataclass
class FakeBus:
    """Writes down what is sent; `tails` are the last records of logs, `arrive` brings a word."""

    @property
    def link(self) -> FakeBus:
        return self

    worker_id: str = "gateway-1"
    sent: asyncio.Queue[tuple[str, Message]] = field(default_factory=asyncio.Queue)
    tails: dict[str, Any] = field(default_factory=dict)
    looks: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    arrive: Callable[[Message], None] = lambda word: None

    def log(self, kind: object, request_id: str) -> FakeLog:
        return FakeLog(self, request_id)

    async def send(self, subject: str, message: Message) -> None:
        self.sent.put_nowait((subject, message))

    async def listen(self, subject: str, callback: Callable[[Message], None]) -> str:
        self.arrive = callback
        return subject

    async def unsubscribe(self, subscription: object) -> None:
        return


@dataclass
class FakeLog:
    bus: FakeBus
    request_id: str

    async def tail(self) -> Any:
        self.bus.looks.put_nowait(self.request_id)
        found = self.bus.tails.get(self.request_id)
        if isinstance(found, Exception):
            raise found
        return None if found is None else SimpleNamespace(record=found)


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus()


@pytest.fixture
async def listeners(bus: FakeBus) -> AsyncIterator[Listeners]:
    made = Listeners(bus, QUICK)  # type: ignore[arg-type]
    running = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    yield made
    made.give_up_places()
    running.cancel()
    await asyncio.wait([running])


def chunk() -> AudioChunk:
    return AudioChunk("r", 0, 24_000, Tensor.of(np.zeros(1, np.int16)))


async def test_a_request_is_heard_over_the_latest_connection_alone(listeners: Listeners) -> None:
    first, second = Voice("r"), Voice("r")
    listeners.begin(first)
    listeners.begin(second)
    assert (first.superseded, second.superseded) == (1, 0)
    listeners.end(first)  # it left late, and takes nothing from its successor
    third = Voice("r")
    listeners.begin(third)
    assert second.superseded == 1


async def test_the_stages_are_told_who_is_heard_until_it_ends(
    listeners: Listeners, bus: FakeBus
) -> None:
    voice, other = Voice("r"), Voice("other")
    listeners.begin(voice)
    async with asyncio.timeout(TIMEOUT_S):
        assert await bus.sent.get() == (subjects.listening("r"), Listening("r", "gateway-1"))
        listeners.end(voice)
        listeners.begin(other)
        told = [(await bus.sent.get())[0] for _ in range(4)]
    assert told[1:] == [subjects.listening("other")] * 3  # one word may have been on its way


async def test_another_gateway_takes_a_request_over(listeners: Listeners, bus: FakeBus) -> None:
    voice, left = Voice("r"), asyncio.Event()
    listeners.begin(voice)
    listeners.keep_place("r", left.set)
    bus.arrive(Listening("r", "gateway-1"))  # its own word says nothing new
    assert voice.superseded == 0
    bus.arrive(Listening("r", "gateway-2"))
    assert voice.superseded == 1
    assert left.is_set()


@pytest.mark.parametrize("before", [None, chunk(), nats.errors.TimeoutError()])
async def test_a_lost_client_keeps_its_place_until_its_request_has_its_end(
    listeners: Listeners, bus: FakeBus, before: Any
) -> None:
    left = asyncio.Event()
    bus.tails["r"] = before
    listeners.keep_place("r", left.set)
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(3):
            await bus.looks.get()
            assert not left.is_set()
        bus.tails["r"] = End("r", 0, "ok")
        await left.wait()


async def test_a_place_is_left_once_by_a_client_that_is_back_or_by_the_next_one(
    listeners: Listeners,
) -> None:
    left: list[int] = []
    listeners.keep_place("r", lambda: left.append(1))
    listeners.keep_place("r", lambda: left.append(2))
    assert left == [1]
    for _ in range(2):
        listeners.give_up_place("r")
    assert left == [1, 2]
    listeners.keep_place("r", lambda: left.append(3))
    listeners.give_up_places()
    assert left == [1, 2, 3]


OLD, NEW = "o" * 32, "n" * 32


def test_a_token_opens_its_own_request_to_its_own_tenant_alone() -> None:
    tokens = ResumeTokens([NEW])
    token = tokens.issue("r1", "acme")
    tokens.require(token, "r1", "acme")
    for wrong in (("r2", "acme"), ("r1", "globex"), ("r1", "")):
        with pytest.raises(NotFound):
            tokens.require(token, *wrong)
    with pytest.raises(NotFound):
        tokens.require(None, "r1", "acme")


def test_without_a_secret_a_gateway_opens_its_own_alone() -> None:
    one, other = ResumeTokens.of(GatewaySettings()), ResumeTokens.of(GatewaySettings())
    token = one.issue("r", "")
    one.require(token, "r", "")
    with pytest.raises(NotFound):
        other.require(token, "r", "")


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "resume"
    file.write_text(f"{NEW}\n")
    token = ResumeTokens.of(GatewaySettings(resume_secret=NEW)).issue("r", "")
    settings = GatewaySettings(resume_secret_file=file, previous_resume_secret=OLD)
    ResumeTokens.of(settings).require(token, "r", "")
    ResumeTokens.of(settings).require(ResumeTokens([OLD]).issue("r", ""), "r", "")


@pytest.mark.parametrize(
    ("secret", "content", "message"),
    [
        ("short", None, "at least 32"),
        ("", "short", "fewer than 32"),
        ("", None, "No such file"),
        (NEW, NEW, "one of"),
    ],
)
def test_a_secret_that_is_none_or_there_twice_is_refused(
    tmp_path: Path, secret: str, content: str | None, message: str
) -> None:
    file = tmp_path / "resume"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=message):
        GatewaySettings(resume_secret=secret, resume_secret_file=file)
