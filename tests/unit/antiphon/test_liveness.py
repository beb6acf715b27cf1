"""A service that hangs answers nothing, and is told from one that is slow or ill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.stack.child import answers, until_silent
from tests.waits import TIMEOUT_S


@asynccontextmanager
async def served(answer: bytes, after_s: float = 0.0) -> AsyncIterator[int]:
    """A port where every connection is answered so, or only accepted."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(after_s)
        if answer:
            writer.write(answer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    for writer in writers:
        writer.transport.abort()
    server.close()
    await asyncio.gather(
        server.wait_closed(), *(w.wait_closed() for w in writers), return_exceptions=True
    )


async def test_what_is_slow_or_ill_answers() -> None:
    async with served(b"HTTP/1.1 503 Service Unavailable\r\n\r\n", after_s=0.5) as port:
        assert await answers(port)


async def test_what_only_accepts_connections_does_not_answer() -> None:
    async with served(b"") as port:
        assert not await answers(port)
    assert not await answers(port)  # nor what is gone


async def test_silence_is_told_once_it_has_lasted() -> None:
    async with served(b"HTTP/1.1 200 OK\r\n\r\n") as port:
        watching = asyncio.create_task(until_silent(port, 0.5))
        done, _ = await asyncio.wait((watching,), timeout=2.5)
        assert not done
    began_s = time.monotonic()
    await asyncio.wait_for(watching, TIMEOUT_S)
    assert time.monotonic() - began_s >= 0.5
