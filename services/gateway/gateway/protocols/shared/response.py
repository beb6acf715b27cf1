"""The HTTP responses of sound: what a request's audio makes, and stored sound, in ranges."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Self, TypeVar

import structlog
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.audio import AudioFormat, formats, provenance
from gateway.audio.encoders.compressed import unpacked, with_length
from gateway.books import JobParts, JobResult
from gateway.errors import ClientTooSlow
from gateway.protocols.framing import Framing, Plain
from gateway.protocols.utterance import CLEAN_UP_S, StreamedText
from gateway.requests import IncrementalText, Speech, SpeechSpec
from gateway.requests.delivery import server_timing
from gateway.settings import GatewaySettings
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BadRequest, LogGone

T = TypeVar("T")
# 22 s of PCM at 24 kHz: most bodies never see a disk.
IN_MEMORY_BYTES: Final = 1 << 20
_PART_BYTES: Final = 1 << 18
TOKEN_HEADER: Final = "x-resume-token"
PROVENANCE_HEADER: Final = "x-provenance"

log_ = structlog.get_logger(__name__)


class SpeechResponse(Response):
    """The audio of one request, as it comes or whole.

    A client that leaves cancels it, unless it asked for a request that can be resumed. text: of a
    request that begins here; its headers say what became of names and options.
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
        text: IncrementalText | None = None,
    ) -> None:
        self._framing = framing or Plain(blames="input")
        kind = self._framing.media_type or media_type(audio, speech.sample_rate)
        chosen = {} if text is None else chosen_headers(speech.spec, text)
        super().__init__(headers={**chosen, **(headers or {})}, media_type=kind)
        # Starlette adds a charset, which no audio has.
        self.headers["content-type"] = kind
        self._settings = settings
        self._speech = speech
        # The length in a WAV's head is known at its end.
        self._exact_wav = audio.container == "wav" and not streamed
        made = AudioFormat(audio.codec) if self._exact_wav else audio
        self._audio = audio
        self._utterance = StreamedText(speech, made, self._framing, self, text)
        self._deliver = self._stream if streamed else self._whole
        self._spool: Spool | None = None
        self._started = False
        if (token := speech.resume_token) is not None:
            self.headers[TOKEN_HEADER] = token
        if (origin := speech.provenance) is not None:
            self.headers[PROVENANCE_HEADER] = origin.header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._client = send
        if self._speech.spec.resumable:
            self._speech.keep()
        try:
            await while_connected(receive, self._deliver())
        except ClientGone:
            return
        except AntiphonError as error:
            if not self._started:
                raise
            log_.warning("response.cut", request_id=self._speech.request_id, code=error.code)
            # Returning now makes the server cut the connection without the closing chunk, so that
            # a truncated body cannot pass for a complete one.
            if last := self._framing.failed(self._speech, error):
                await self._send(last, more=True)

    async def put_audio(
        self, data: str | bytes, sent: Callable[[], Awaitable[None]], owner: object = None
    ) -> None:
        """Send a part of the body, or lay it aside if it is sent whole."""
        if self._spool is None:
            await self._start()
            await self._send(data, more=True)
        else:
            await self._spool.add(_bytes(data))
        await sent()

    async def flush(self) -> None:
        """Nothing waits here."""

    async def _stream(self) -> None:
        await self._utterance.sound()
        # Behind it: a client that has all of it looks gone, and its end would be cut.
        await self._start()
        await self._send(self._framing.end(self._speech), more=False)

    async def _whole(self) -> None:
        with Spool() as self._spool:
            await self._utterance.sound()
            await self._spool.add(_bytes(self._framing.end(self._speech)))
            await self._send_whole(self._spool)

    async def _send_whole(self, body: Spool) -> None:
        head, samples = b"", self._speech.delivery.samples
        if self._exact_wav:
            samples = len(body) // self._audio.sample_bytes
            info = provenance.riff_info(self._speech.provenance)
            head = formats.header(self._speech.sample_rate, samples, self._audio.codec, info)
        await self._start(length=len(head) + len(body))
        await self._send(head, more=True)
        unpatched = self._audio.codec == "flac" and not self._framing.media_type
        async for part in body.parts():
            await self._send(with_length(part, samples) if unpatched else part, more=True)
            unpatched = False
        await self._send(b"", more=False)

    async def _start(self, length: int | None = None) -> None:
        """Send the head, once."""
        if self._started:
            return
        self.headers["x-sample-rate"] = str(self._speech.sample_rate)
        if warning := self._speech.spec.warning:
            self.headers["warning"] = warning
        if stages := self._speech.delivery.stages:
            self.headers["server-timing"] = server_timing(stages)
        del self.headers["content-length"]
        if length is not None:
            self.headers["content-length"] = str(length)
        self._started = True
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await self._client(head)

    async def _send(self, data: str | bytes, *, more: bool) -> None:
        limit_s = self._settings.slow_client_timeout_s
        body = {"type": "http.response.body", "body": _bytes(data), "more_body": more}
        try:
            async with asyncio.timeout(limit_s):
                await self._client(body)
        except TimeoutError:
            raise ClientTooSlow(f"the client took nothing for {limit_s:g} s") from None


def chosen_headers(spec: SpeechSpec, text: IncrementalText) -> dict[str, str]:
    """What a client's names came to, and which of its options and parts of its text are dropped."""
    found = spec.dropped(text)
    ignored = {"x-ignored": ", ".join(found)} if found else {}
    return {"x-model": spec.model.name, "x-voice": spec.voice.id, **ignored}


def media_type(audio: AudioFormat, sample_rate: int) -> str:
    """The content type; bare samples do not tell their rate themselves."""
    bare = f";rate={sample_rate};channels=1" if audio.raw else ""
    return audio.media_type + bare


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


class Spool:
    """A context manager: what was added is gone when it is left. Raises OSError for a full disk."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self._in_memory_bytes = in_memory_bytes
        # It is closed where the context is left.
        self._file = tempfile.SpooledTemporaryFile(in_memory_bytes)  # noqa: SIM115
        self._bytes = 0

    def __len__(self) -> int:
        return self._bytes

    @property
    def on_disk(self) -> bool:
        return self._bytes > self._in_memory_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    async def add(self, data: bytes) -> None:
        """Append `data`; a disk does not hold up the loop."""
        self._bytes += len(data)
        if self.on_disk:
            await asyncio.to_thread(self._file.write, data)
        else:
            self._file.write(data)

    async def parts(self) -> AsyncIterator[bytes]:
        """Everything, in parts of a quarter of a MiB."""
        self._file.seek(0)
        while part := await self._read():
            yield part

    async def _read(self) -> bytes:
        if self.on_disk:
            return await asyncio.to_thread(self._file.read, _PART_BYTES)
        return self._file.read(_PART_BYTES)


class ClientGone(BadRequest):
    """The client has left; no one reads what this becomes."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns; a client that leaves cancels it at once. Raises ClientGone.

    receive: of a request whose body was read.
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone("the connection ended")
    finally:
        await stop(task, gone, again_s=CLEAN_UP_S)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class ByteRange(NamedTuple):
    """From `start` to before `stop`."""

    start: int
    stop: int


def range_of(header: str | None, size: int) -> ByteRange | None:
    """What a Range header asks for (RFC 9110, section 14.2); None for all of it.

    One range is understood; several, and other units, mean all. An empty range cannot be given.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or found.group(1, 2) == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        return ByteRange(max(0, size - int(last)), size)
    start, stop = int(first), int(last) + 1 if last else size
    if last and stop <= start:
        return None  # such a header is to be ignored
    return ByteRange(start, min(stop, size))


class RangedSound(StreamingResponse):
    """Reads a part of the result at a time, as the client takes it."""

    def __init__(
        self, parts: JobParts, result: JobResult, headers: Mapping[str, str], request: Request
    ) -> None:
        self._parts, self._result = parts, result
        wanted = None if _changed(request, headers["etag"]) else request.headers.get("range")
        asked = range_of(wanted, result.size)
        at = asked or ByteRange(0, result.size)
        empty = asked is not None and at.start >= at.stop
        fields = dict(headers) | {"accept-ranges": "bytes"}
        if asked is not None:
            span = "*" if empty else f"{at.start}-{at.stop - 1}"
            fields["content-range"] = f"bytes {span}/{result.size}"
        fields["content-length"] = "0" if empty else str(at.stop - at.start)
        status = 200 if asked is None else 416 if empty else 206
        wants_none = empty or request.method == "HEAD"
        super().__init__(() if wants_none else self._bytes(at), status, fields)

    async def _bytes(self, wanted: ByteRange) -> AsyncIterator[bytes]:
        """Raises LogGone where the store has lost a part: then bytes are missing."""
        if head := self._result.head[wanted.start : wanted.stop]:
            yield head
        at = len(self._result.head)
        for part in self._result.parts:
            start, stop = max(wanted.start - at, 0), min(wanted.stop - at, part.size)
            at += part.size
            if start < stop:
                yield (await self._part(part.name))[start:stop]

    async def _part(self, name: str) -> bytes:
        data = await self._parts.get(name)
        if data is None:
            raise LogGone("the store has lost a part of the sound")
        if not self._result.packed:
            return data
        pcm = await asyncio.to_thread(unpacked, data)
        return pcm.astype("<i2", copy=False).tobytes()


def _changed(request: Request, etag: str) -> bool:
    """A client that has a part of something else wants all of this."""
    given = request.headers.get("if-range")
    return given is not None and given != etag
