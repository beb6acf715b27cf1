"""What the client library is made to do otherwise, at a broker and at a server that listens."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import pytest
from nats.aio.msg import Msg

from tests.waits import TIMEOUT_S
from ttscommon.bus import Bus
from ttscommon.bus.client import BusClient
from ttscommon.bus.lean import LeanClient
from ttscommon.bus.library import HOOKS
from ttscommon.bus.link import Link
from ttscommon.process.settings import BusSettings
from ttscommon.wire.errors import BusUnavailable, NoResponders


@asynccontextmanager
async def recorder(verbs: list[str]) -> AsyncIterator[str]:
    """A broker's address; `verbs` are the first words of the lines that its clients send."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "s", "version": "2.11.0", "max_payload": 1 << 20, "headers": True}
        writer.write(f"INFO {json.dumps(info)}\r\n".encode())
        while line := await reader.readline():
            verbs.append(line.decode().split()[0])
            if verbs[-1] == "PING":
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"nats://{host}:{port}"


async def test_a_flush_is_answered_after_everything_that_was_sent_before_it() -> None:
    verbs: list[str] = []
    async with recorder(verbs) as address:
        client = BusClient()
        await client.connect(address)
        subscription = await client.subscribe("inbox", cb=AsyncMock())
        await client.flush()
        verbs.clear()
        await subscription.drain()
        assert verbs == ["UNSUB", "PING"]
        await client.close()


async def test_an_attempt_to_connect_that_loses_its_cancellation_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trying = asyncio.Event()

    async def lose_cancellation(client: BusClient) -> None:
        first = not trying.is_set()
        trying.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not first:
                raise
            raise OSError("the connection is cleaned up") from None

    monkeypatch.setattr(BusClient, HOOKS["greet"], lose_cancellation)
    async with recorder([]) as address:
        connecting = asyncio.create_task(Link.connect(BusSettings(urls=(address,)), "test"))
        await trying.wait()
        connecting.cancel()
        await asyncio.wait([connecting], timeout=TIMEOUT_S)
        assert connecting.cancelled()


# Messages that are heard by the task that reads them


async def test_coroutines_run_one_behind_another_and_one_that_fails_stops_nothing(bus: Bus) -> None:
    heard: list[str] = []
    over = asyncio.Event()

    async def receive(message: Msg) -> None:
        word = message.data.decode()
        heard.append(f"begin {word}")
        await asyncio.sleep(0)
        if word == "a":
            raise ValueError(word)
        heard.append(f"end {word}")
        if word == "c":
            over.set()

    await bus.link.subscribe("here", receive)
    for word in "abc":
        await bus.link.send_raw("here", word.encode())
    await asyncio.wait_for(over.wait(), TIMEOUT_S)
    assert heard == ["begin a", "begin b", "end b", "begin c", "end c"]


async def test_a_hearer_that_fails_does_not_deafen_the_connection(bus: Bus) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    def fail(message: Msg) -> None:
        raise ValueError(message.data)

    await bus.link.subscribe_inline("here", fail)
    await bus.link.subscribe_inline("here", lambda message: heard.put_nowait(message.data))
    await bus.link.send_raw("here", b"1")
    await bus.link.send_raw("here", b"2")
    async with asyncio.timeout(TIMEOUT_S):
        assert [await heard.get(), await heard.get()] == [b"1", b"2"]


async def test_what_is_not_heard_any_more_is_not_run_to_its_end(bus: Bus) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def receive(message: Msg) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    subscription = await bus.link.subscribe("here", receive)
    await bus.link.send_raw("here", b"")
    await asyncio.wait_for(began.wait(), TIMEOUT_S)
    await bus.link.unsubscribe(subscription)
    await asyncio.wait_for(cancelled.wait(), TIMEOUT_S)


async def test_headers_arrive_as_they_were_sent(bus: Bus) -> None:
    heard: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()
    await bus.link.subscribe_inline("here", lambda message: heard.put_nowait(message.headers))
    sent = {"C": "17", "traceparent": "00-aa-bb-01", "Name": "größer: so"}
    await bus.link.send_raw("here", b"", sent)
    await bus.link.send_raw("here", b"")
    async with asyncio.timeout(TIMEOUT_S):
        assert [await heard.get(), await heard.get()] == [sent, None]


async def test_a_request_that_is_not_answered_leaves_nothing_behind(bus: Bus) -> None:
    with pytest.raises(NoResponders):
        await bus.link.request("nobody", b"", 5.0)
    await bus.link.subscribe("mute", AsyncMock())
    with pytest.raises(BusUnavailable):
        await bus.link.request("mute", b"", 0.01)
    assert not bus.link.client._answers


def test_a_header_that_would_break_the_line_is_left_to_the_library() -> None:
    assert LeanClient._command("s", b"", "", {"A": "b\r\nC: d"}) is None
    whole = LeanClient._command("s", b"xyz", "r", {"A": "b"})
    assert whole == b"HPUB s r 18 21\r\nNATS/1.0\r\nA: b\r\n\r\nxyz\r\n"
    assert LeanClient._command("s", b"xyz", "", None) == b"PUB s  3\r\nxyz\r\n"
