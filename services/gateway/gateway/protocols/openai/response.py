"""The HTTP response that a request's audio makes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.audio import pieces, wav
from gateway.errors import ClientTooSlow
from gateway.protocols.openai.body import MEDIA_TYPES
from gateway.requests import Speech
from gateway.requests.breakdown import server_timing
from gateway.settings import GatewaySettings
from ttscommon.errors import AntiphonError, NothingToSay
from ttscommon.tasks import stop

# Leaving a request may wait for its last text to be committed.
_CLEAN_UP_S: Final = 6.0

log_ = structlog.get_logger(__name__)


class SpeechResponse(Response):
    """The audio of one request, as it comes or whole.

    A client that leaves cancels it, unless it asked for a request that can be resumed.
    """

    def __init__(
        self, settings: GatewaySettings, speech: Speech, response_format: str, *, streamed: bool
    ) -> None:
        super().__init__(media_type=MEDIA_TYPES[response_format])
        self._settings = settings
        self._speech = speech
        self._wav = response_format == "wav"
        self._deliver = self._stream if streamed else self._whole
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await _while_connected(receive, self._deliver(send))
        except AntiphonError as error:
            if not self._started:
                raise
            # Returning now makes the server cut the connection without the closing chunk, so that
            # a truncated body cannot pass for a complete one.
            log_.warning("response.cut", request_id=self._speech.request_id, code=error.code)

    async def _stream(self, send: Send) -> None:
        self._speech.detached = self._speech.spec.resumable
        async with self._speech as speech:
            async for piece in pieces(speech):
                if not piece.data:
                    continue
                prefix = b"" if self._started else await self._start(send)
                await self._send(send, prefix + piece.data, more=True)
                await speech.handed(piece.samples)
            if not self._started and speech.fresh:
                raise _silence()
        # Outside: a client that has all of it looks gone, and the rest of the exit would be cut.
        await self._send(send, b"", more=False)

    async def _whole(self, send: Send) -> None:
        parts: list[bytes] = []
        samples = 0
        self._speech.detached = self._speech.spec.resumable
        async with self._speech as speech:
            async for piece in pieces(speech):
                if piece.data:
                    parts.append(piece.data)
                    samples += piece.samples
                    await speech.handed(piece.samples)
        if not parts:
            raise _silence()
        if self._wav:
            parts.insert(0, wav.header(self._speech.sample_rate, samples))
        body = b"".join(parts)
        await self._start(send, length=len(body))
        await self._send(send, body, more=False)

    async def _start(self, send: Send, length: int | None = None) -> bytes:
        """Send the head; returns what goes in front of the first audio of a stream."""
        rate = self._speech.sample_rate
        self.headers["x-sample-rate"] = str(rate)
        if self._speech.stages:
            self.headers["server-timing"] = server_timing(self._speech.stages)
        del self.headers["content-length"]
        if length is not None:
            self.headers["content-length"] = str(length)
        self._started = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        return wav.header(rate, None) if length is None and self._wav else b""

    async def _send(self, send: Send, data: bytes, *, more: bool) -> None:
        limit_s = self._settings.slow_client_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await send({"type": "http.response.body", "body": data, "more_body": more})
        except TimeoutError:
            raise ClientTooSlow(f"the client took nothing for {limit_s:g} s") from None


def _silence() -> NothingToSay:
    return NothingToSay("nothing in the text can be spoken", param="input")


async def _while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do `work`; a client that leaves cancels it at once."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        await stop(task, gone, again_s=_CLEAN_UP_S)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
