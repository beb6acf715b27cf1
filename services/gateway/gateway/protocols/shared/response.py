"""The HTTP response that a request's audio makes, in whatever frames a protocol puts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final, Protocol

import structlog
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.audio import AudioFormat, Piece, encoder_for, pieces, wav
from gateway.audio.encoders import cost_ms
from gateway.errors import ClientTooSlow
from gateway.protocols.shared.spool import Spool
from gateway.requests import Speech
from gateway.requests.breakdown import server_timing
from gateway.settings import GatewaySettings
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, NothingToSay

# Leaving a request may wait for its last text to be committed.
_CLEAN_UP_S: Final = 6.0

TOKEN_HEADER: Final = "x-resume-token"

log_ = structlog.get_logger(__name__)


class Framing(Protocol):
    """How a protocol puts pieces of audio into a body."""

    @property
    def media_type(self) -> str: ...

    def piece(self, piece: Piece) -> bytes:
        """What to send for a piece; may be nothing yet."""

    def end(self, speech: Speech) -> bytes:
        """What closes a complete body."""

    def failed(self, error: AntiphonError) -> bytes:
        """What tells, in a body that has begun, that it ends too early."""


class Plain:
    """Audio and nothing else."""

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type

    def piece(self, piece: Piece) -> bytes:
        return piece.data

    def end(self, speech: Speech) -> bytes:
        return b""

    def failed(self, error: AntiphonError) -> bytes:
        return b""


class SpeechResponse(Response):
    """The audio of one request, as it comes or whole.

    A client that leaves cancels it, unless it asked for a request that can be resumed.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        speech: Speech,
        audio: AudioFormat,
        framing: Framing | None = None,
        *,
        streamed: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._framing = framing or Plain(media_type(audio, speech.sample_rate))
        super().__init__(headers=dict(headers or {}), media_type=self._framing.media_type)
        # Starlette adds a charset, which no audio has.
        self.headers["content-type"] = self._framing.media_type
        self._settings = settings
        self._speech = speech
        self._audio = audio
        self._exact_wav = audio.container == "wav" and not streamed
        self._deliver = self._stream if streamed else self._whole
        self._started = False
        if (token := speech.resume_token) is not None:
            self.headers[TOKEN_HEADER] = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await _while_connected(receive, self._deliver(send))
        except AntiphonError as error:
            if not self._started:
                raise
            log_.warning("response.cut", request_id=self._speech.request_id, code=error.code)
            # Returning now makes the server cut the connection without the closing chunk, so that
            # a truncated body cannot pass for a complete one.
            if last := self._framing.failed(error):
                await self._send(send, last, more=True)

    async def _stream(self, send: Send) -> None:
        self._speech.detached = self._speech.spec.resumable
        unsent = 0
        async with self._speech as speech:
            async for piece in self._pieces():
                unsent += piece.samples
                if data := self._framing.piece(piece):
                    await self._start(send)
                    await self._send(send, data, more=True)
                    if unsent:  # the end of a format may be made of nothing new
                        await speech.handed(unsent)
                    unsent = 0
            self._require_sound()
        # Outside: a client that has all of it looks gone, and the rest of the exit would be cut.
        await self._start(send)
        await self._send(send, self._framing.end(self._speech), more=False)

    async def _whole(self, send: Send) -> None:
        samples, head = 0, b""
        self._speech.detached = self._speech.spec.resumable
        with Spool() as body:
            async with self._speech as speech:
                async for piece in self._pieces():
                    await body.add(self._framing.piece(piece))
                    samples += piece.samples
                    if piece.samples:
                        await speech.handed(piece.samples)
                self._require_sound()
            await body.add(self._framing.end(self._speech))
            if self._exact_wav:
                head = wav.header(self._speech.sample_rate, samples, self._audio.codec)
            await self._start(send, length=len(head) + len(body))
            await self._send(send, head, more=True)
            async for part in body.parts():
                await self._send(send, part, more=True)
            await self._send(send, b"", more=False)

    def _pieces(self) -> AsyncIterator[Piece]:
        made = AudioFormat(self._audio.codec) if self._exact_wav else self._audio
        encoder = encoder_for(made, self._speech.sample_rate)
        return pieces(self._speech, encoder, cost_ms(made))

    def _require_sound(self) -> None:
        if self._speech.account is None and self._speech.fresh:
            raise NothingToSay("nothing in the text can be spoken", param="input")

    async def _start(self, send: Send, length: int | None = None) -> None:
        """Send the head, once."""
        if self._started:
            return
        self.headers["x-sample-rate"] = str(self._speech.sample_rate)
        if warning := self._speech.spec.warning:
            self.headers["warning"] = warning
        if self._speech.stages:
            self.headers["server-timing"] = server_timing(self._speech.stages)
        del self.headers["content-length"]
        if length is not None:
            self.headers["content-length"] = str(length)
        self._started = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

    async def _send(self, send: Send, data: bytes, *, more: bool) -> None:
        limit_s = self._settings.slow_client_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await send({"type": "http.response.body", "body": data, "more_body": more})
        except TimeoutError:
            raise ClientTooSlow(f"the client took nothing for {limit_s:g} s") from None


def media_type(audio: AudioFormat, sample_rate: int) -> str:
    """The content type; bare samples do not tell their rate themselves."""
    bare = f";rate={sample_rate};channels=1" if audio.raw else ""
    return audio.media_type + bare


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
