"""A client of the native socket that keeps all that it hears."""

import asyncio
import json
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from gateway.protocols.native import STREAM_PATH
from tests.waits import TIMEOUT_S


class Client:
    """A socket, every message that came over it, and the sound."""

    def __init__(self, socket: ClientConnection, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.socket = socket
        self.told: list[dict[str, Any]] = []
        self.pcm = b""

    @classmethod
    async def opened(cls, url: str, timeout_s: float = TIMEOUT_S) -> Self:
        address = url.replace("http", "ws", 1) + STREAM_PATH
        return cls(await connect(address, max_size=None), timeout_s)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def say(self, *pieces: str, **config: Any) -> None:
        """A request, and all its text."""
        await self.send("session.config", **config)
        for piece in pieces:
            await self.send("input.text", text=piece)
        await self.send("input.done")

    async def until(self, *kinds: str, **wanted: Any) -> dict[str, Any]:
        """The next message of these types with these fields, or piece of sound: `audio`.

        An error comes only where it is asked for.
        """
        async with asyncio.timeout(self._timeout_s):
            while True:
                data = await self.socket.recv()
                if isinstance(data, bytes):
                    self.pcm += data
                    message: dict[str, Any] = {"type": "audio"}
                else:
                    self.told.append(message := json.loads(data))
                if message["type"] in kinds and wanted.items() <= message.items():
                    return message
                assert message["type"] != "error" or "error" in kinds, message

    def vanish(self) -> None:
        """As a network does it: without a goodbye."""
        self.socket.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()
