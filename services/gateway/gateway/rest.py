"""The HTTP routes: speech in OpenAI's shape, models, voices, and the playground page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from importlib import resources
from typing import Annotated, Any, Final

import numpy as np
import structlog
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from gateway import text, wav
from gateway.errors import ClientTooSlow, MessageTooBig
from gateway.front import Front, speech_request
from gateway.resample import Pcm, resampler
from gateway.schema import DEFAULT, SpeechBody, parse_body
from gateway.speech import Resume, Speech
from gateway.stages import server_timing
from ttscommon.errors import AntiphonError, NothingToSay
from ttscommon.messages import SpeechRequest
from ttscommon.tasks import stop

_MEDIA_TYPES: Final = {"wav": "audio/wav", "pcm": "audio/pcm"}
_CLEAN_UP_S: Final = 6.0
_PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:; connect-src 'self' ws: wss:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

log_ = structlog.get_logger(__name__)
router = APIRouter()


def front_of(request: Request) -> Front:
    front: Front = request.app.state.front
    return front


Fronted = Annotated[Front, Depends(front_of)]

_PAGE: Final = resources.files("gateway").joinpath("static/index.html").read_text("utf-8")


@router.get("/", include_in_schema=False)
async def playground() -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"content-security-policy": _PAGE_POLICY})


@router.get("/v1/models")
async def models(front: Fronted) -> dict[str, Any]:
    """The models that live talkers serve, as OpenAI lists its own."""
    found = front.catalogue.snapshot.models().values()
    listed = [
        {
            "id": model.name,
            "object": "model",
            "created": 0,
            "owned_by": "antiphon",
            "family": model.family,
            "sample_rate": model.sample_rate,
        }
        for model in found
    ]
    return {"object": "list", "data": listed}


@router.get("/v1/audio/voices")
async def voices(front: Fronted, model: Annotated[str, Query()] = "default") -> dict[str, Any]:
    """The voices of one model."""
    found = front.catalogue.snapshot.model(model, front.settings.default_model)
    return {
        "voices": [
            {"id": voice.id, "name": voice.name, "language": voice.language}
            for voice in found.voices
        ]
    }


@router.post("/v1/audio/speech", response_class=Response)
async def speech(request: Request, front: Fronted) -> Response:
    """Speak a text; see docs/protocol.md."""
    tenant = front.keys.identify(request.headers.get("authorization"))
    body = parse_body(await _read(request, front.settings.max_body_bytes))
    body.refuse_unsupported()
    cleaned = text.clean(body.input, front.settings.max_text_chars)
    model, voice = await front.catalogue.resolve(body.model, body.voice)
    job = speech_request(
        request.state.request_id, model, voice, cleaned,
        seed=body.seed, language=body.language, tenant=tenant,
    )  # fmt: skip
    resampler(model.sample_rate, body.sample_rate or model.sample_rate)  # refuse it before work
    return SpokenResponse(front, body, job)


@router.get("/v1/audio/speech/{request_id}", response_class=Response)
async def resume(
    request: Request,
    front: Fronted,
    request_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{8,64}$")],
    from_sample: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    model: Annotated[str, Query()] = DEFAULT,
    response_format: Annotated[str, Query()] = "pcm",
    sample_rate: Annotated[int | None, Query(ge=8000, le=48_000)] = None,
) -> Response:
    """The rest of a request whose connection was lost, from `from_sample` on."""
    tenant = front.keys.identify(request.headers.get("authorization"))
    body = SpeechBody(
        input="", response_format=response_format, stream=True, sample_rate=sample_rate,
        resumable=True,
    )  # fmt: skip
    body.refuse_unsupported()
    found, voice = await front.catalogue.resolve(model, DEFAULT)
    rate = sample_rate or found.sample_rate
    resampler(found.sample_rate, rate)
    job = speech_request(request_id, found, voice, "", tenant=tenant)
    # Other rates are made from the request's beginning: a resampler has a memory.
    start, skip = (from_sample, 0) if rate == found.sample_rate else (0, from_sample)
    return SpokenResponse(front, body, job, Resume(start, from_sample / rate), skip)


async def _read(request: Request, limit: int) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > limit:
            raise MessageTooBig(f"the body is over {limit} bytes")
    return bytes(parts)


class SpokenResponse(Response):
    """The audio of one request, as it comes or whole. A client that leaves cancels it, unless it
    asked for a request that can be resumed. `skip` samples are not sent.
    """

    def __init__(
        self,
        front: Front,
        body: SpeechBody,
        job: SpeechRequest,
        resume: Resume | None = None,
        skip: int = 0,
    ) -> None:
        super().__init__(media_type=_MEDIA_TYPES[body.response_format])
        self._front = front
        self._body = body
        self._job = job
        self._resume = resume
        self._skip = skip
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        deliver = self._stream if self._body.streamed else self._whole
        try:
            await _while_connected(receive, deliver(send))
        except AntiphonError as error:
            if not self._started:
                raise
            # Returning now makes the server cut the connection without the closing chunk, so that
            # a truncated body cannot pass for a complete one.
            log_.warning("response.cut", request_id=self._job.request_id, code=error.code)

    async def _stream(self, send: Send) -> None:
        async with self._speech() as speech:
            async for pcm, rate in self._audio(speech):
                prefix = b"" if self._started else await self._start(send, rate, speech)
                await self._send(send, prefix + pcm, more=True)
                await speech.handed(len(pcm) // wav.BYTES_PER_SAMPLE, rate)
            self._refuse_silence()
        # Outside: whoever has all of it looks gone, and what is left of the exit would be cut.
        await self._send(send, b"", more=False)

    async def _whole(self, send: Send) -> None:
        parts: list[bytes] = []
        async with self._speech() as speech:
            async for pcm, rate in self._audio(speech):
                parts.append(pcm)
                await speech.handed(len(pcm) // wav.BYTES_PER_SAMPLE, rate)
        pcm = b"".join(parts)
        if not pcm:
            raise _silence()
        if self._body.response_format == "wav":
            pcm = wav.header(rate, len(pcm) // wav.BYTES_PER_SAMPLE) + pcm
        await self._start(send, rate, speech, length=len(pcm))
        await self._send(send, pcm, more=False)

    def _speech(self) -> Speech:
        speech = Speech(self._front.backstage, self._job, resume=self._resume)
        speech.detached = self._body.resumable
        return speech

    async def _audio(self, speech: Speech) -> AsyncIterator[tuple[bytes, int]]:
        """Pieces of PCM at the rate the client asked for, with that rate."""
        convert = None
        rate = 0
        async for chunk in speech:
            if convert is None:
                rate = self._body.sample_rate or chunk.sample_rate
                convert = resampler(chunk.sample_rate, rate)
            if len(pcm := self._skipped(convert.feed(chunk.pcm.array()))):
                yield pcm.astype("<i2", copy=False).tobytes(), rate
        tail = self._skipped(convert.flush()) if convert is not None else np.zeros(0, np.int16)
        if len(tail):
            yield tail.astype("<i2", copy=False).tobytes(), rate

    async def _start(
        self, send: Send, rate: int, speech: Speech, length: int | None = None
    ) -> bytes:
        """Send the head; returns what goes in front of the first audio of a stream."""
        self.headers["x-sample-rate"] = str(rate)
        if speech.stages:
            self.headers["server-timing"] = server_timing(speech.stages)
        del self.headers["content-length"]
        if length is not None:
            self.headers["content-length"] = str(length)
        self._started = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        streamed_wav = length is None and self._body.response_format == "wav"
        return wav.header(rate, None) if streamed_wav else b""

    async def _send(self, send: Send, data: bytes, *, more: bool) -> None:
        limit_s = self._front.settings.slow_client_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await send({"type": "http.response.body", "body": data, "more_body": more})
        except TimeoutError:
            raise ClientTooSlow(f"the client took nothing for {limit_s:g} s") from None

    def _skipped(self, pcm: Pcm) -> Pcm:
        skipped = min(self._skip, len(pcm))
        self._skip -= skipped
        return pcm[skipped:]

    def _refuse_silence(self) -> None:
        if not self._started and self._resume is None:
            raise _silence()


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
