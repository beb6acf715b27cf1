"""The HTTP routes: speech, tokens, and voices."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from gateway.audio import AudioFormat, PcmBlock
from gateway.protocols.cartesia.fields import Speak, error_shape, spec_of, word_timestamps
from gateway.protocols.fields import LenientMessage
from gateway.protocols.framing import Framing
from gateway.protocols.shared import voices as shared
from gateway.protocols.shared.context import (
    Context,
    caller_of,
    max_wait_s,
    read_json,
    read_speech,
    tenant_of,
)
from gateway.protocols.shared.response import SpeechResponse
from gateway.protocols.shared.voices import Listed, limit_of, page
from gateway.requests import GatewayContext, Speech
from ttscommon.wire.errors import AntiphonError

_MOST_S: Final = 3600
router = APIRouter()


class Events(Framing):
    """Server-sent events with the objects of the socket."""

    media_type = "text/event-stream"
    blames = "input"

    def __init__(self, request_id: str, *, timed: bool) -> None:
        self._about = {"context_id": request_id, "status_code": 206, "done": False}
        self._timed = timed

    def audio(self, speech: Speech, piece: PcmBlock) -> bytes:
        events = b""
        if piece.words and self._timed:
            timestamps = {"word_timestamps": word_timestamps(piece.words)}
            events += event({"type": "timestamps", **self._about, **timestamps})
        if piece.data:
            data = {"data": base64.b64encode(piece.data).decode(), "step_time": 0.0}
            events += event({"type": "chunk", **self._about, **data})
        return events

    def end(self, speech: Speech) -> bytes:
        return event({"type": "done", **self._about, "done": True, "status_code": 200})

    def failed(self, speech: Speech, error: AntiphonError) -> bytes:
        told = error_shape(error, str(self._about["context_id"]))
        return event({"type": "error", **self._about, **told})


def event(content: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (content["type"].encode(), msgspec.json.encode(content))


@router.post("/tts/bytes", response_class=Response)
async def speak(request: Request, context: Context) -> Response:
    """Audio, as it is made."""
    return await _speak(request, context, as_events=False)


@router.post("/tts/sse", response_class=Response)
async def stream(request: Request, context: Context) -> Response:
    """Bare samples and word times, as they are made."""
    return await _speak(request, context, as_events=True)


async def _speak(request: Request, context: GatewayContext, *, as_events: bool) -> Response:
    tenant = await caller_of(context, request)
    asked = Speak.parsed(await read_speech(request, context, tenant))
    text = context.whole(asked.transcript)
    spec = await spec_of(context, tenant, asked, max_wait_s(request))
    name = request.state.request_id
    audio, events = asked.output_format.audio, None
    if as_events:
        audio = AudioFormat(audio.codec)
        events = Events(asked.context_id or name, timed=asked.add_timestamps)
    spoken = context.speak(spec, text, name)
    return SpeechResponse(context.settings, spoken, audio, events, text=text)


class TokenBody(LenientMessage):
    """Seconds. What is granted besides speech means nothing here."""

    expires_in: Annotated[int, Field(ge=1, le=_MOST_S)] = _MOST_S


@router.post("/access-token")
async def access_token(request: Request, context: Context) -> dict[str, Any]:
    """A token that stands for the caller's key; a token makes none."""
    tenant = tenant_of(context, request)
    body = TokenBody.parsed(await read_json(request, context.settings))
    value, _ = await context.sessions.issue(tenant, {}, body.expires_in)
    return {"token": value}


_PAGE: Final = 10
_GENDERS: Final = MappingProxyType(
    {"female": "feminine", "male": "masculine", "neutral": "gender_neutral"}
)
_OURS: Final = MappingProxyType({theirs: ours for ours, theirs in _GENDERS.items()})


def _card(voice: Listed) -> dict[str, Any]:
    return {
        "id": voice.id,
        "name": voice.name,
        "description": voice.name,
        "tagline": "",
        "language": voice.language,
        "locales": [
            {"locale": tag, "is_native": place == 0} for place, tag in enumerate(voice.languages)
        ],
        "gender": _GENDERS.get(voice.gender or ""),
        "access": "private" if voice.own else "public",
        "visibility": "owner" if voice.own else "all",
        "is_public": not voice.own,
        "is_owner": voice.own,
        "created_at": datetime.fromtimestamp(voice.created_unix_s, UTC).isoformat(),
    }


@router.get("/voices")
@router.get("/voices/", include_in_schema=False)
async def voices(request: Request, context: Context) -> dict[str, Any]:
    """A page of voices; clients go on behind its last one until there are no more."""
    query = dict(request.query_params)
    if gender := query.get("gender"):
        query["gender"] = _OURS.get(gender, gender)
    found = shared.chosen(await shared.listed(context, request), query)
    if (owned := query.get("is_owner", "").lower()) in ("true", "false"):
        found = [voice for voice in found if voice.own is (owned == "true")]
    shown = page(
        found,
        lambda voice: voice.id,
        limit_of(query, "limit", _PAGE),
        after=("starting_after", query.get("starting_after")),
        before=("ending_before", query.get("ending_before")),
    )
    following = shown.items[-1].id if shown.more and shown.items else None
    data = [_card(voice) for voice in shown.items]
    return {"data": data, "has_more": shown.more, "next_page": following}


@router.get("/voices/{voice_id}")
async def voice(request: Request, context: Context, voice_id: str) -> dict[str, Any]:
    """One voice."""
    return _card(await shared.find(context, request, voice_id))


@router.post("/voices")
@router.post("/voices/clone")
async def clone(request: Request, context: Context) -> dict[str, Any]:
    """A voice of a recording (`clip`), for models that clone."""
    made = await shared.make(context, request, "clip")
    return _card(await shared.find(context, request, made.name))


@router.delete("/voices/{voice_id}", status_code=204, response_class=Response)
async def delete(request: Request, context: Context, voice_id: str) -> None:
    """Delete a voice that was made of a recording."""
    await context.voices.delete(tenant_of(context, request), voice_id)
