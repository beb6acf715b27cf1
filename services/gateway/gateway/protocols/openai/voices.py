"""Voices made of recordings: uploaded and deleted by their owners, as vLLM-Omni has it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.protocols.fields import LenientMessage, Recording
from gateway.protocols.openai.lists import uploaded_card
from gateway.protocols.shared.bounded_json import Json
from gateway.protocols.shared.context import Context, chunks, read_json
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.forms import read_form
from gateway.requests import NewVoice
from gateway.requests.options import recording
from ttscommon.sound.recordings import MOST_BYTES
from ttscommon.wire.messages import MAX_TEXT_CHARS

router = APIRouter()

# A recording in base64, and what stands beside it.
_MOST_BODY: Final = MOST_BYTES * 4 // 3 + (64 << 10)


class VoiceBody(LenientMessage):
    """A voice to be made; `audio_sample` is base64 in JSON, a file in a form."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    audio_sample: Recording
    consent: Annotated[str, Field(max_length=4000)]
    ref_text: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] = ""
    adapter: Annotated[str, Field(max_length=64)] = ""


@router.post("/v1/audio/voices")
async def upload(request: Request, context: Context) -> dict[str, Any]:
    """Make a voice of a recording; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith("multipart/"):
        body = chunks(request, _MOST_BODY)
        new = _from_form(await read_form(kind, body, {"audio_sample": MOST_BYTES}))
    else:
        new = await _from_json(await read_json(request, context.settings, _MOST_BODY))
    if new.adapter:
        await context.require_adapter(tenant, new.adapter)
    voice = await context.voices.add(tenant, new)
    return {"success": True, "voice": uploaded_card(voice)}


@router.delete("/v1/audio/voices/{name}")
async def delete(request: Request, context: Context, name: str) -> dict[str, Any]:
    """Delete a voice and all that was made of it."""
    await context.voices.delete(tenant_of(context, request), name)
    return {"success": True}


async def _from_json(given: Json) -> NewVoice:
    body = VoiceBody.parsed(given)
    data = await recording(body.audio_sample)
    return NewVoice(body.name, data, body.consent, body.ref_text, body.adapter)


def _from_form(values: dict[str, bytes]) -> NewVoice:
    audio = values.pop("audio_sample", None)
    texts: dict[str, Any] = {
        name: value.decode("utf-8", "replace") for name, value in values.items()
    }
    if audio is not None:
        texts["audio_sample"] = ""
    body = VoiceBody.parsed(texts)
    return NewVoice(body.name, audio or b"", body.consent, body.ref_text, body.adapter)
