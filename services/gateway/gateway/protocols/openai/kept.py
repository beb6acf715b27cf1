"""Voices, lexicons and adapters over HTTP: made, listed and deleted by the key that owns them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import Field

from gateway.errors import WrongContentType
from gateway.protocols.fields import LenientMessage, Recording
from gateway.protocols.openai.lists import uploaded_card
from gateway.protocols.shared.bounded_json import Json
from gateway.protocols.shared.context import Context, chunks, read_json, tenant_of
from gateway.protocols.shared.forms import read_form
from gateway.protocols.shared.voices import require_cloning
from gateway.requests import NewVoice, pls
from gateway.requests.kept import StoredAdapter, StoredLexicon
from gateway.requests.lexicon import LexiconEntry
from gateway.requests.options import recording
from gateway.requests.pls import Parsed, parse_json, parse_pls
from ttscommon.cluster.adapters import config
from ttscommon.sound.recordings import MOST_BYTES
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.messages import MAX_TEXT_CHARS

router = APIRouter()

_SAMPLE: Final = "audio_sample"
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
async def upload_voice(request: Request, context: Context) -> dict[str, Any]:
    """Make a voice of a recording; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith("multipart/"):
        body = chunks(request, _MOST_BODY)
        new = _from_form(*await read_form(kind, body, {_SAMPLE: MOST_BYTES}))
    else:
        new = await _from_json(await read_json(request, context.settings, _MOST_BODY))
    if new.adapter:
        await context.require_adapter(tenant, new.adapter)
    await require_cloning(context, _SAMPLE)
    voice = await context.voices.add(tenant, new)
    return {"success": True, "voice": uploaded_card(voice)}


@router.delete("/v1/audio/voices/{name}")
async def delete_voice(request: Request, context: Context, name: str) -> dict[str, Any]:
    """Delete a voice and all that was made of it."""
    await context.voices.delete(tenant_of(context, request), name)
    return {"success": True}


async def _from_json(given: Json) -> NewVoice:
    body = VoiceBody.parsed(given)
    data = await recording(body.audio_sample)
    return NewVoice(body.name, data, body.consent, body.ref_text, body.adapter)


def _from_form(texts: dict[str, str], files: dict[str, bytes]) -> NewVoice:
    body = VoiceBody.parsed(texts | dict.fromkeys(files, ""))
    audio = files.get(_SAMPLE, b"")
    return NewVoice(body.name, audio, body.consent, body.ref_text, body.adapter)


_XML: Final = ("application/pls+xml", "application/xml", "text/xml")
_LEXICONS: Final = "/v1/audio/lexicons"


@router.post(_LEXICONS)
async def make_lexicon(
    request: Request,
    context: Context,
    name: Annotated[str, Query(max_length=64)] = "",
    replace: bool = False,
) -> dict[str, Any]:
    """Store a lexicon in PLS or JSON; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    parsed = await _parsed(request, any_content_type=context.settings.any_content_type)
    stored = await context.lexicons.add(tenant, name or parsed.name, parsed, replace=replace)
    return lexicon_card(stored)


@router.get(_LEXICONS)
async def own_lexicons(request: Request, context: Context) -> dict[str, Any]:
    """The caller's lexicons, without their entries."""
    found = await context.lexicons.of(tenant_of(context, request))
    return {"lexicons": [lexicon_card(one_lexicon) for one_lexicon in found]}


@router.get(_LEXICONS + "/{name}")
async def one_lexicon(request: Request, context: Context, name: str) -> dict[str, Any]:
    """A lexicon with its entries."""
    stored, entries = await context.lexicons.whole(tenant_of(context, request), name)
    return {**lexicon_card(stored), "entries": [_entry(entry) for entry in entries]}


@router.delete(_LEXICONS + "/{name}")
async def delete_lexicon(request: Request, context: Context, name: str) -> dict[str, Any]:
    """Requests that have begun keep it."""
    await context.lexicons.delete(tenant_of(context, request), name)
    return {"success": True}


def lexicon_card(stored: StoredLexicon) -> dict[str, Any]:
    """A lexicon for its owner."""
    return {
        "name": stored.name,
        "language": stored.language,
        "entry_count": stored.entries,
        "created_at": int(stored.created_unix_s),
    }


def _entry(entry: LexiconEntry) -> dict[str, Any]:
    if entry.alias:
        return {"grapheme": entry.grapheme, "alias": entry.alias}
    alphabet = "ipa" if entry.alphabet == "ipa" else "cmu-arpabet"
    return {"grapheme": entry.grapheme, "phoneme": entry.phones, "alphabet": alphabet}


async def _parsed(request: Request, *, any_content_type: bool) -> Parsed:
    """Raises InvalidLexicon, MessageTooBig, WrongContentType."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json"
    if not (is_json or kind in _XML or any_content_type):
        raise WrongContentType(f"the body must be application/json or one of {', '.join(_XML)}")
    data = b"".join([part async for part in chunks(request, pls.MOST_BYTES)])
    is_json = is_json or (kind not in _XML and data.lstrip()[:1] == b"{")
    # Thousands of entries take milliseconds.
    return await asyncio.to_thread(parse_json if is_json else parse_pls, data)


_ADAPTERS: Final = "/v1/audio/adapters"
_CONFIG: Final = "adapter_config"
_MODEL: Final = "adapter_model"
# What a form has around its fields.
_FRAME_BYTES: Final = 64 << 10


@router.post(_ADAPTERS)
async def upload_adapter(request: Request, context: Context) -> dict[str, Any]:
    """Store an adapter in PEFT's format; see docs/protocol.md."""
    tenant = tenant_of(context, request)
    quota = context.keys.limit("adapter_uploads", tenant, context.settings.max_adapters)
    most = context.settings.max_adapter_bytes
    await context.adapters.require_room(tenant, quota)
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/"):
        raise WrongContentType("the body must be multipart/form-data")
    body = chunks(request, most + config.MOST_BYTES + _FRAME_BYTES)
    texts, files = await read_form(kind, body, {_MODEL: most, _CONFIG: config.MOST_BYTES})
    for name in ("name", _CONFIG, _MODEL):
        if name not in texts and name not in files:
            raise BadRequest(f"the form lacks {name}", param=name)
    stored = await context.adapters.add(tenant, texts["name"], files[_CONFIG], files[_MODEL], quota)
    return {"success": True, "adapter": adapter_card(stored)}


@router.get(_ADAPTERS)
async def own_adapters(request: Request, context: Context) -> dict[str, Any]:
    """Those that the caller uploaded; the deployment's own stand with their models."""
    found = await context.adapters.of(tenant_of(context, request))
    return {"adapters": [adapter_card(one) for one in found]}


@router.delete(_ADAPTERS + "/{name}")
async def delete_adapter(request: Request, context: Context, name: str) -> dict[str, Any]:
    """Requests that a talker speaks already go on."""
    await context.adapters.delete(tenant_of(context, request), name)
    return {"success": True}


def adapter_card(stored: StoredAdapter) -> dict[str, Any]:
    """An adapter for its owner."""
    return {
        "name": stored.name,
        "digest": stored.digest,
        "rank": stored.rank,
        "bytes": stored.size,
        "created_at": int(stored.created_unix_s),
    }
