"""Voices made of recordings: uploaded and deleted by whoever owns them, as vLLM-Omni has it."""

from __future__ import annotations

from email import message_from_bytes
from email.message import Message
from email.policy import HTTP
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import Field, ValidationError

from gateway import errors
from gateway.protocols.fields import LenientMessage
from gateway.protocols.openai.lists import uploaded_card
from gateway.protocols.shared.context import Context, read_body
from gateway.protocols.shared.credentials import tenant_of
from gateway.requests import NewVoice
from gateway.requests.wishes import recording
from ttscommon.sound.recordings import MOST_BYTES
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.messages import MAX_TEXT_CHARS

router = APIRouter()

# A recording in base64, and what stands beside it.
_MOST_BODY: Final = MOST_BYTES * 4 // 3 + (64 << 10)
_MOST_PARTS: Final = 16


class VoiceBody(LenientMessage):
    """A voice to be made; `audio_sample` is base64 in JSON, a file in a form."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    audio_sample: str
    consent: Annotated[str, Field(max_length=4000)]
    ref_text: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] = ""


@router.post("/v1/audio/voices")
async def upload(request: Request, context: Context) -> dict[str, Any]:
    """Make a voice of a recording; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    data = await read_body(request, _MOST_BODY)
    kind = request.headers.get("content-type", "")
    new = _from_form(kind, data) if kind.startswith("multipart/form-data") else _from_json(data)
    voice = await context.voices.add(tenant, new)
    return {"success": True, "voice": uploaded_card(voice)}


@router.delete("/v1/audio/voices/{name}")
async def delete(request: Request, context: Context, name: str) -> dict[str, Any]:
    """Delete a voice and all that was made of it."""
    await context.voices.delete(tenant_of(context, request), name)
    return {"success": True}


def _from_json(data: bytes) -> NewVoice:
    body = _checked(VoiceBody.model_validate_json, data)
    return NewVoice(body.name, recording(body.audio_sample), body.consent, body.ref_text)


def _from_form(content_type: str, data: bytes) -> NewVoice:
    """multipart/form-data (RFC 7578), which the library for mail reads as well."""
    head = f"content-type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    whole = message_from_bytes(head + data, policy=HTTP)
    parts = whole.get_payload()
    if not isinstance(parts, list) or len(parts) > _MOST_PARTS:
        raise BadRequest("the body is no form")
    values: dict[str, bytes] = {}
    for part in parts:
        if isinstance(part, Message):
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            values[str(name)] = content if isinstance(content, bytes) else b""
    audio = values.pop("audio_sample", None)
    texts: dict[str, Any] = {
        name: value.decode("utf-8", "replace") for name, value in values.items()
    }
    if audio is not None:
        texts["audio_sample"] = ""
    body = _checked(VoiceBody.model_validate, texts)
    return NewVoice(body.name, audio or b"", body.consent, body.ref_text)


def _checked(validate: Any, given: Any) -> VoiceBody:
    try:
        body: VoiceBody = validate(given)
    except ValidationError as error:
        raise errors.from_validation(error) from error
    return body
