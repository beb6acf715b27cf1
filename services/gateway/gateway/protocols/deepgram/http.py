"""`POST /v1/speak`, and `/v2/speak`, which differs on sockets alone."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gateway.audio.encoders import ready
from gateway.protocols.deepgram.fields import error_shape, parse_body, parse_query, spec_of
from gateway.protocols.shared.context import Context, chosen_headers, read_speech
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.response import SpeechResponse
from gateway.protocols.shared.shapes import shaped

router = APIRouter(dependencies=[shaped(error_shape)])

_ENCODING: Final = "mp3"
_CONTAINER: Final = "wav"


@router.post("/v1/speak", response_class=Response)
@router.post("/v2/speak", response_class=Response)
async def speak(request: Request, context: Context) -> Response:
    """Audio, as it is made."""
    tenant = tenant_of(context, request)
    query = parse_query(request)
    body = parse_body((await read_speech(request, context, tenant)).data)
    audio = query.audio(_ENCODING, _CONTAINER)
    ready(audio)
    text = context.whole(body.text)
    spec = await spec_of(context, tenant, query, query.rate_hz(_ENCODING))
    spoken = context.speak(spec, text, request.state.request_id)
    headers = {
        **chosen_headers(spec, text),
        "dg-request-id": request.state.request_id,
        "dg-model-name": query.model,
        "dg-char-count": str(len(body.text)),
    }
    return SpeechResponse(context.settings, spoken, audio, headers=headers)
