"""What the client library is made to do otherwise, against a server that writes down what comes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.msg import Msg

from tests.waits import TIMEOUT_S
from ttscommon.bus.client import BusClient
from ttscommon.bus.library import HOOKS
from ttscommon.bus.link import Link
from ttscommon.process.settings import BusSettings


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


async def unheard(message: Msg) -> None:
    raise AssertionError(message.data)


async def test_a_flush_is_answered_after_everything_that_was_sent_before_it() -> None:
    verbs: list[str] = []
    async with recorder(verbs) as address:
        client = BusClient()
        await client.connect(address)
        subscription = await client.subscribe("inbox", cb=unheard)
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
