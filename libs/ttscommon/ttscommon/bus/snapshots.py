"""JetStream's snapshots of streams: to a file, and back into a broker.

The server packs a stream (its settings, records and sequences) and sends it in pieces; every piece
is acknowledged, so neither side holds much (JetStream wire API, "Snapshot and restore streams").
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.link import Link
from ttscommon.wire.errors import BusUnavailable

T = TypeVar("T")

_API: Final = "$JS.API.STREAM"
_PIECE_BYTES: Final = 128 << 10
# Between two pieces; a restore's last answer waits until the server has read all.
_PIECE_S: Final = 30.0
_RESTORED_S: Final = 600.0
# Until every server of a cluster knows who listens for a restore's pieces.
_KNOWN_S: Final = 10.0
_KNOWN_PAUSE_S: Final = 0.05
_NOT_FOUND: Final = 10059


@dataclass(frozen=True)
class StreamSnapshot:
    """A stream as it was. `sha256` is that of the packed stream, `state` the server's words."""

    stream: str
    config: dict[str, Any]
    state: dict[str, Any]
    sha256: str

    @property
    def messages(self) -> int:
        return int(self.state.get("messages", 0))


class Snapshots:
    """Takes and restores them. Every method raises BusUnavailable."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def take(self, stream: str, path: Path) -> StreamSnapshot:
        """Write `stream`, packed, to `path`."""
        inbox = self._link.client.new_inbox()
        async with self._subscribed(inbox, stream) as pieces:
            body = {"deliver_subject": inbox, "no_consumers": True, "chunk_size": _PIECE_BYTES}
            found = await self._ask("SNAPSHOT", stream, body)
            digest = hashlib.sha256()
            with path.open("wb") as file:
                while data := await self._piece(pieces, stream):
                    digest.update(data)
                    await asyncio.to_thread(file.write, data)
        return StreamSnapshot(stream, found["config"], found["state"], digest.hexdigest())

    async def restore(self, snapshot: StreamSnapshot, path: Path, replicas: int) -> None:
        """Make the stream of `path`, in so many copies; it must not exist."""
        config = {**snapshot.config, "num_replicas": replicas}
        body = {"config": config, "state": snapshot.state}
        subject = (await self._ask("RESTORE", snapshot.stream, body))["deliver_subject"]
        with path.open("rb") as file:
            while data := await asyncio.to_thread(file.read, _PIECE_BYTES):
                await self._send(snapshot.stream, subject, data, _PIECE_S)
        await self._send(snapshot.stream, subject, b"", _RESTORED_S)

    async def messages(self, stream: str) -> int | None:
        """How many records the stream has; None if there is no such stream."""
        try:
            return int((await self._ask("INFO", stream, None))["state"]["messages"])
        except _ApiError as error:
            if error.number == _NOT_FOUND:
                return None
            raise

    async def delete(self, stream: str) -> None:
        """Remove the stream and all that it has."""
        await self._ask("DELETE", stream, None)

    @asynccontextmanager
    async def _subscribed(self, inbox: str, stream: str) -> AsyncIterator[Subscription]:
        client = self._link.client
        pieces = await self._named(stream, lambda: client.subscribe(inbox))
        try:
            yield pieces
        finally:
            await pieces.unsubscribe()

    async def _piece(self, pieces: Subscription, stream: str) -> bytes:
        """The next piece, acknowledged; empty at the end."""
        message = await self._named(stream, lambda: pieces.next_msg(timeout=_PIECE_S))
        headers = message.headers or {}
        if headers.get("Status", "204") not in ("200", "204"):
            text = headers.get("Description", headers["Status"])
            raise BusUnavailable(f"{stream}: {text}")
        if message.data and message.reply:
            await self._named(stream, lambda: message.respond(b""))
        return bytes(message.data)

    async def _send(self, stream: str, subject: str, data: bytes, timeout_s: float) -> None:
        answer = await self._named(stream, lambda: self._heard(subject, data, timeout_s))
        if answer.data:
            _checked(stream, answer.data)

    async def _heard(self, subject: str, data: bytes, timeout_s: float) -> Msg:
        """The answer. Who listens may be another server, of which this one hears a moment later;
        what reached no reader is sent again.
        """
        end_s = time.monotonic() + _KNOWN_S
        while True:
            try:
                return await self._link.client.request(subject, data, timeout=timeout_s)
            except nats.errors.NoRespondersError:
                if time.monotonic() > end_s:
                    raise
                await asyncio.sleep(_KNOWN_PAUSE_S)

    async def _ask(self, action: str, stream: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        subject, client = f"{_API}.{action}.{stream}", self._link.client
        answer = await self._named(stream, lambda: client.request(subject, data, timeout=_PIECE_S))
        return _checked(stream, answer.data)

    async def _named(self, stream: str, action: Callable[[], Awaitable[T]]) -> T:
        try:
            return await action()
        except Unreachable as error:
            raise BusUnavailable(f"{stream}: {reason(error)}") from error


class _ApiError(BusUnavailable):
    """The server's own error; `number` as in its list of errors."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


def _checked(stream: str, data: bytes) -> dict[str, Any]:
    if data.startswith(b"-ERR"):
        raise BusUnavailable(f"{stream}: {data.decode(errors='replace')}")
    answer: dict[str, Any] = json.loads(data)
    if error := answer.get("error"):
        raise _ApiError(f"{stream}: {error.get('description')}", int(error.get("err_code", 0)))
    return answer
