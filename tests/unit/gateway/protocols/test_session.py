"""The life of a session over a transport that the test holds."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.errors import BinaryMessage, WrongOrder
from gateway.protocols.framing import Plain
from gateway.protocols.session import Leave, Session
from gateway.protocols.utterance import Gone
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import AntiphonError


class Line:
    """A transport: frames that a test puts in, and what was sent. `deaf`: sends that hang."""

    def __init__(self, *frames: object, deaf: int = 0) -> None:
        self.frames: asyncio.Queue[object] = asyncio.Queue()
        for frame in frames:
            self.frames.put_nowait(frame)
        self.sent: list[str | bytes] = []
        self.closed: list[int] = []
        self.connected = True
        self._deaf = deaf

    async def receive(self) -> object:
        frame = await self.frames.get()
        if isinstance(frame, Exception):
            self.connected = False
            raise frame
        return frame

    async def send(self, data: str | bytes) -> None:
        if self._deaf:
            self._deaf -= 1
            await asyncio.Event().wait()
        self.sent.append(data)

    async def close(self, code: int) -> None:
        self.closed.append(code)


MISTAKES = {"early": WrongOrder("not now"), "binary": BinaryMessage("no text")}


class Echo(Session[str, Plain]):
    """Says back what it is told."""

    async def parse(self, frame: Any) -> str:
        if frame in MISTAKES:
            raise MISTAKES[frame]
        return str(frame)

    async def take(self, message: str) -> None:
        if message == "leave":
            raise Leave(1001)
        if message == "fault":
            raise RuntimeError(message)
        self.put(message)

    def refused(self, error: AntiphonError, message: str | None) -> None:
        self.put(f"{error.code} {message}")


def echo(line: Line, **settings: Any) -> Echo:
    context = SimpleNamespace(settings=GatewaySettings(port=0, **settings))
    return Echo(line, cast(Any, context))


@pytest.mark.parametrize(
    ("frames", "sent", "code"),
    [
        (["one", "two", "leave", "three"], ["one", "two"], 1001),
        (["early", "binary", "late"], ["wrong_order None", "binary_message None"], 1008),
        (["fault", "late"], ["internal None"], 1011),
    ],
    ids=["what was queued", "mistakes, the second of them fatal", "a fault of ours"],
)
async def test_all_is_told_before_the_one_close(
    frames: list[str], sent: list[str], code: int
) -> None:
    line = Line(*frames)
    await echo(line).serve()
    assert (line.sent, line.closed) == (sent, [code])


async def test_a_client_that_has_left_is_not_written_to() -> None:
    line = Line("one", Gone(lost=True))
    await echo(line).serve()
    assert line.closed == []


async def test_a_client_that_takes_nothing_is_told_so_without_the_audio_that_waits() -> None:
    line = Line(deaf=1)
    session = echo(line, slow_client_timeout_s=0.05)

    async def left() -> None:
        pytest.fail("it was never taken")

    for _ in range(2):
        await session.outbox.put_audio(b"sound", left)
    await session.serve()
    assert (line.sent, line.closed) == (["client_too_slow None"], [1008])


@pytest.mark.parametrize("before", [True, False])
async def test_a_gateway_that_shuts_down_ends_what_has_nothing_to_say(before: bool) -> None:
    line = Line()
    session = echo(line)
    if before:
        session.drain()
    serving = asyncio.create_task(session.serve())
    await asyncio.sleep(0)
    session.drain()
    await serving
    assert line.closed == [1012]


async def test_a_session_that_is_cancelled_while_it_cleans_up_leaves_nothing_spoken() -> None:
    line, asked, released = Line("leave"), asyncio.Event(), asyncio.Event()
    session, stopped = echo(line), []

    async def stop() -> None:
        asked.set()
        await released.wait()
        stopped.append(True)

    session.utterances.append(cast(Any, SimpleNamespace(stop=stop)))
    serving = asyncio.create_task(session.serve())
    await asked.wait()
    serving.cancel()
    await asyncio.sleep(0)
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (stopped, line.closed) == ([True], [1001])
