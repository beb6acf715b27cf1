"""A TCP proxy that can misbehave: cut, stall or slow what passes through it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Self

_READ_BYTES = 1 << 16

Upstreams = Callable[[], Sequence[int]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """Listens on a free port of 127.0.0.1 and forwards to the first upstream that answers.

    `delay_s` holds back everything by so much in each direction.
    """

    def __init__(self, upstreams: Upstreams) -> None:
        self.port = 0
        self.delay_s = 0.0
        self._upstreams = upstreams
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._drop_all()

    async def cut(self, for_s: float) -> None:
        """Break every connection and accept none for a while."""
        self._refusing = True
        await self._drop_all()
        await asyncio.sleep(for_s)
        self._refusing = False

    async def stall(self, for_s: float) -> None:
        """Pass nothing on for a while, as a network does that loses every packet."""
        self._open.clear()
        await asyncio.sleep(for_s)
        self._open.set()

    async def slow(self, delay_s: float, for_s: float) -> None:
        """Add `delay_s` to each direction for a while."""
        self.delay_s = delay_s
        await asyncio.sleep(for_s)
        self.delay_s = 0.0

    async def _drop_all(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self._refusing and (upstream := await self._connect()) is not None:
                await self._forward((reader, writer), upstream)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connect(self) -> Connection | None:
        for port in self._upstreams():
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def _forward(self, near: Connection, far: Connection) -> None:
        ways = [
            asyncio.create_task(self._pump(near[0], far[1])),
            asyncio.create_task(self._pump(far[0], near[1])),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far[1].transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read at once and write when the time has come, so that a delay costs no throughput."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.create_task(self._write(queue, writer))
        try:
            while data := await reader.read(_READ_BYTES):
                queue.put_nowait((time.monotonic() + self.delay_s, data))
            queue.put_nowait((time.monotonic() + self.delay_s, b""))
            await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _write(
        self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            due_s, data = await queue.get()
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            await self._open.wait()
            if not data:
                return
            writer.write(data)
            await writer.drain()
