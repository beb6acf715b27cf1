"""The HTTP routes: speech, and the rest of a lost one."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from gateway.errors import NotFound
from gateway.protocols import deepgram, elevenlabs
from gateway.protocols.fields import SampleRate, Speed
from gateway.protocols.framing import Framing, Plain
from gateway.protocols.openai import jobs, kept, kokoro, lists
from gateway.protocols.openai.lists import default_first, model_card
from gateway.protocols.openai.speech import (
    SAMPLE_RATE,
    CaptionedWhole,
    CaptionLines,
    SpeechBody,
    SpeechEvents,
    format_named,
)
from gateway.protocols.shared.context import (
    Context,
    max_wait_s,
    read_speech,
    tenant_of,
)
from gateway.protocols.shared.response import TOKEN_HEADER, SpeechResponse
from gateway.requests import DEFAULT, GatewayContext
from gateway.requests.text import only_pictures

router = APIRouter()

# Of a text of pictures alone: applications send an answer's sentences one by one, and give up the
# rest of it at an error.
_SILENCE_S: Final = 0.2
_REQUEST_ID: Final = re.compile(r"^[A-Za-z0-9_-]{8,64}$")


@router.get("/v1/models")
async def models(request: Request, context: Context) -> Response:
    """The models that live talkers serve, the default first. ElevenLabs' and Deepgram's ask too."""
    if "xi-api-key" in request.headers:
        return JSONResponse(await elevenlabs.models(context))
    if deepgram.asks(request):
        return JSONResponse(await deepgram.models(context, request))
    found = await context.catalogue.models()
    names = default_first(found, context.settings.default_model)
    cards = [model_card(found[name], context.catalogue.snapshot) for name in names]
    return JSONResponse({"object": "list", "data": cards})


@router.post("/v1/audio/speech", response_class=Response)
async def speech(request: Request, context: Context) -> Response:
    """Speak a text; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    body = SpeechBody.parsed(await read_speech(request, context, tenant))
    sse = body.stream_format == "sse"
    framing = SpeechEvents(len(body.input)) if sse else None
    return await _speak(request, context, tenant, body, framing, streamed=body.stream or sse)


@router.post("/dev/captioned_speech", response_class=Response)
async def captioned(request: Request, context: Context) -> Response:
    """Speak a text and tell the times of its words, as Kokoro-FastAPI does."""
    tenant = tenant_of(context, request)
    body = SpeechBody.parsed(await read_speech(request, context, tenant))
    framing = (CaptionLines if body.stream else CaptionedWhole)(body.audio.media_type)
    return await _speak(request, context, tenant, body, framing, streamed=body.stream)


# Routes are tried in order, and speech is asked for most.
router.include_router(lists.router)
router.include_router(kokoro.router)
router.include_router(kept.router)
router.include_router(jobs.router)


async def _speak(
    request: Request,
    context: GatewayContext,
    tenant: str,
    body: SpeechBody,
    framing: Framing | None,
    *,
    streamed: bool,
) -> Response:
    audio = body.audio
    silent = framing is None and only_pictures(body.input)
    text = context.whole(body.input, optional=silent or body.speech is not None)
    if silent:
        framing = Plain(silence_s=_SILENCE_S)
    waits_s = max_wait_s(request) if body.max_wait_s is None else body.max_wait_s
    spec = await context.spec(
        tenant,
        model=body.model,
        voice=body.voice,
        names="aliases",
        sample_rate=audio.rate_for(body.sample_rate),
        seed=body.seed,
        options=body.options,
        resumable=body.resumable,
        speed=body.speed,
        max_wait_s=waits_s,
    )
    spoken = context.speak(spec, text, request.state.request_id)
    return SpeechResponse(context.settings, spoken, audio, framing, streamed=streamed, text=text)


@router.get("/v1/audio/speech/{request_id}", response_class=Response)
async def resume(
    request: Request,
    context: Context,
    request_id: str,
    from_sample: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    model: Annotated[str, Query()] = DEFAULT,
    response_format: Annotated[str, Query()] = "pcm",
    sample_rate: Annotated[SampleRate, Query()] = SAMPLE_RATE,
    speed: Annotated[Speed, Query()] = 1.0,
) -> Response:
    """The rest of a request whose connection was lost, from `from_sample` on."""
    tenant = tenant_of(context, request)
    if not _REQUEST_ID.match(request_id):
        raise NotFound("there is no such request", param="request_id")
    audio = format_named(response_format)
    rate = audio.rate_for(sample_rate)
    spec = await context.spec(
        tenant,
        model=model,
        names="aliases",
        sample_rate=rate,
        resumable=True,
        speed=speed,
        attaching=True,
    )
    token = request.headers.get(TOKEN_HEADER)
    rest = context.attach(spec, request_id, from_sample, token)
    return SpeechResponse(context.settings, rest, audio)
