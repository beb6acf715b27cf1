"""Deepgram's fields, most of them in the query, and the HTTP routes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.requests import HTTPConnection

from gateway import errors
from gateway.audio import AudioFormat
from gateway.audio.encoders import ready
from gateway.audio.resample import MAX_SPEED, MIN_SPEED
from gateway.errors import NotFound
from gateway.protocols.fields import LenientMessage, SampleRate, Spoken
from gateway.protocols.shared.context import (
    Context,
    max_wait_s,
    read_speech,
    tenant_of,
)
from gateway.protocols.shared.response import SpeechResponse
from gateway.protocols.shared.voices import Listed, listed
from gateway.requests import DEFAULT, GatewayContext, SpeechSpec
from ttscommon.wire.errors import AntiphonError

_CODECS: Final = MappingProxyType({"linear16": "pcm_s16le"})
_RATES_HZ: Final = MappingProxyType(
    {"linear16": 24_000, "mulaw": 8000, "alaw": 8000, "mp3": 22_050, "opus": 48_000,
     "flac": 24_000, "aac": 22_050}
)  # fmt: skip
_CONTAINED: Final = frozenset({"linear16", "mulaw", "alaw"})


class Query(LenientMessage):
    """Numbers come as text, and may have a fraction of zero."""

    model: str = DEFAULT
    encoding: Literal["linear16", "mulaw", "alaw", "mp3", "opus", "flac", "aac"] | None = None
    container: Literal["wav", "none", "ogg"] | None = None
    sample_rate: SampleRate | None = None
    bit_rate: Annotated[int, Field(ge=4_000, le=650_000)] | None = None
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] = 1.0
    max_wait_s: float = 0.0

    def audio(self, encoding: str, container: str) -> AudioFormat:
        """The format; `encoding` and `container` where the client names none."""
        chosen = self.encoding or encoding
        held = (self.container or container) == "wav" and chosen in _CONTAINED
        codec: Any = _CODECS.get(chosen, chosen)
        return AudioFormat(codec, "wav" if held else "none", self.bit_rate)

    def rate_hz(self, encoding: str) -> int:
        chosen = self.encoding or encoding
        return self.audio(encoding, "none").rate_for(self.sample_rate or _RATES_HZ[chosen])


class SpeakBody(LenientMessage):
    text: Spoken


def parse_query(connection: HTTPConnection) -> Query:
    """Raises BadRequest."""
    wanted: dict[str, Any] = dict(connection.query_params)
    wanted["max_wait_s"] = max_wait_s(connection)
    for name in ("sample_rate", "bit_rate"):
        if name in wanted:
            wanted[name] = wanted[name].removesuffix(".0")
    return Query.parsed(wanted)


async def spec_of(
    context: GatewayContext, tenant: str, query: Query, sample_rate: int
) -> SpeechSpec:
    """The voice is the model here. Raises Unavailable."""
    return await context.spec(
        tenant,
        model=query.model,
        voice=query.model,
        sample_rate=sample_rate,
        speed=query.speed,
        names="any",
        max_wait_s=query.max_wait_s,
    )


def error_shape(error: AntiphonError, request_id: str) -> Mapping[str, Any]:
    told = errors.body(error)
    code = str(told["code"]).upper()
    return {"err_code": code, "err_msg": told["message"], "request_id": request_id}


_GENDERS = {"female": "feminine", "male": "masculine", "neutral": "neutral"}
router = APIRouter()

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
        "dg-request-id": request.state.request_id,
        "dg-model-name": quote(query.model),
        "dg-char-count": str(len(body.text)),
    }
    return SpeechResponse(context.settings, spoken, audio, text=text, headers=headers)


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
