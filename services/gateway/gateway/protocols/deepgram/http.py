"""`POST /v1/speak`, and `/v2/speak`, which differs on sockets alone."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.requests import HTTPConnection

from gateway.audio.encoders import ready
from gateway.errors import NotFound
from gateway.protocols.deepgram.fields import SpeakBody, error_shape, parse_query, spec_of
from gateway.protocols.shared.context import Context, chosen_headers, read_speech
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.response import SpeechResponse
from gateway.protocols.shared.shapes import shaped
from gateway.protocols.shared.voices import Listed, listed
from gateway.requests import GatewayContext

_GENDERS = {"female": "feminine", "male": "masculine", "neutral": "neutral"}
router = APIRouter(dependencies=[shaped(error_shape)])

_ENCODING: Final = "mp3"
_CONTAINER: Final = "wav"


@router.post("/v1/speak", response_class=Response)
@router.post("/v2/speak", response_class=Response)
async def speak(request: Request, context: Context) -> Response:
    """Audio, as it is made."""
    tenant = tenant_of(context, request)
    query = parse_query(request)
    body = SpeakBody.parsed(await read_speech(request, context, tenant))
    audio = query.audio(_ENCODING, _CONTAINER)
    ready(audio)
    text = context.whole(body.text)
    spec = await spec_of(context, tenant, query, query.rate_hz(_ENCODING))
    spoken = context.speak(spec, text, request.state.request_id)
    headers = {
        **chosen_headers(spec, text),
        "dg-request-id": request.state.request_id,
        "dg-model-name": quote(query.model),
        "dg-char-count": str(len(body.text)),
    }
    return SpeechResponse(context.settings, spoken, audio, headers=headers)


def asks(connection: HTTPConnection) -> bool:
    """Whether the client is one of Deepgram's, by its key's scheme."""
    return connection.headers.get("authorization", "").lower().startswith("token ")


async def models(context: GatewayContext, connection: HTTPConnection) -> dict[str, Any]:
    """`GET /v1/models`: there is no speech recognition here."""
    return {"stt": [], "tts": [_card(voice) for voice in await listed(context, connection)]}


async def model(context: GatewayContext, connection: HTTPConnection, name: str) -> dict[str, Any]:
    """`GET /v1/models/{id}`; raises NotFound."""
    for voice in await listed(context, connection):
        if voice.id == name:
            return _card(voice)
    raise NotFound(f"there is no model '{name}'", param="model")


def _card(voice: Listed) -> dict[str, Any]:
    tags = [_GENDERS[voice.gender]] if voice.gender else []
    return {
        "name": voice.name,
        "canonical_name": voice.id,
        "architecture": "antiphon",
        "languages": list(voice.languages),
        "version": "1",
        "uuid": voice.id,
        "metadata": {"accent": "", "age": "", "color": "", "image": "", "sample": "", "tags": tags},
    }
