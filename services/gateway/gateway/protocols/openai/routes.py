"""The HTTP routes: speech, the rest of a lost one, models and voices."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from gateway.errors import MessageTooBig
from gateway.protocols.openai.body import parse_body, refuse_format
from gateway.protocols.openai.response import SpeechResponse
from gateway.requests import DEFAULT, GatewayContext
from gateway.requests.text import clean

router = APIRouter()


def context_of(request: Request) -> GatewayContext:
    context: GatewayContext = request.app.state.context
    return context


Context = Annotated[GatewayContext, Depends(context_of)]


@router.get("/v1/models")
async def models(context: Context) -> dict[str, Any]:
    """The models that live talkers serve, as OpenAI lists its own."""
    found = context.catalogue.snapshot.models().values()
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
async def voices(context: Context, model: Annotated[str, Query()] = DEFAULT) -> dict[str, Any]:
    """The voices of one model."""
    found = context.catalogue.snapshot.model(model, context.settings.default_model)
    return {
        "voices": [
            {"id": voice.id, "name": voice.name, "language": voice.language}
            for voice in found.voices
        ]
    }


@router.post("/v1/audio/speech", response_class=Response)
async def speech(request: Request, context: Context) -> Response:
    """Speak a text; see docs/protocol.md."""
    tenant = context.keys.identify(request.headers.get("authorization"))
    body = parse_body(await _read(request, context.settings.max_body_bytes))
    body.refuse_unsupported()
    text = clean(body.input, context.settings.max_text_chars)
    spec = await context.spec(
        tenant,
        model=body.model,
        voice=body.voice,
        sample_rate=body.sample_rate,
        seed=body.seed,
        language=body.language,
        resumable=body.resumable,
    )
    spoken = context.speak(spec, text, request.state.request_id)
    return SpeechResponse(context.settings, spoken, body.response_format, streamed=body.streamed)


@router.get("/v1/audio/speech/{request_id}", response_class=Response)
async def resume(
    request: Request,
    context: Context,
    request_id: Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{8,64}$")],
    from_sample: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
    model: Annotated[str, Query()] = DEFAULT,
    response_format: Annotated[str, Query()] = "pcm",
    sample_rate: Annotated[int | None, Query(ge=8000, le=48_000)] = None,
) -> Response:
    """The rest of a request whose connection was lost, from `from_sample` on."""
    tenant = context.keys.identify(request.headers.get("authorization"))
    refuse_format(response_format)
    spec = await context.spec(tenant, model=model, sample_rate=sample_rate, resumable=True)
    rest = context.attach(spec, request_id, from_sample)
    return SpeechResponse(context.settings, rest, response_format, streamed=True)


async def _read(request: Request, limit: int) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > limit:
            raise MessageTooBig(f"the body is over {limit} bytes")
    return bytes(parts)
