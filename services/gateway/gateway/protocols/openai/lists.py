"""Models and voices, as clients of OpenAI and of servers in its shape list them.

Lists need no key: menus that cannot read them fall back to OpenAI's names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from gateway.errors import InvalidApiKey, NotFound
from gateway.protocols import deepgram
from gateway.protocols.shared.context import Context
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.pages import limit_of, page
from gateway.requests import DEFAULT, GatewayContext, ReplicaSnapshot, StoredVoice
from ttscommon.wire.adapters import ADAPTER
from ttscommon.wire.replicas import Model, Voice

router = APIRouter()


def model_card(model: Model, snapshot: ReplicaSnapshot) -> dict[str, Any]:
    """One model, as OpenAI lists its own; and what it takes of memory, where that is told."""
    loaded, memory_bytes = snapshot.memory(model.name)
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": "antiphon",
        "family": model.family,
        "sample_rate": model.sample_rate,
        "accepts": list(model.accepts),
        "languages": list(model.languages),
        "extra_params": msgspec.to_builtins(model.parameters),
        "loaded": loaded,
        **({"memory_bytes": memory_bytes} if memory_bytes else {}),
        **({"row_width": model.row_width} if model.row_width else {}),
        **({"says": True} if model.says else {}),
        **_adapters(model),
    }


def default_first(names: Iterable[str], default: str) -> list[str]:
    """Names in their order behind the default one: a menu begins with what a request would get."""
    return sorted(names, key=lambda name: (name != default, name))


def _adapters(model: Model) -> dict[str, Any]:
    """Those that the deployment brings along, where the model takes any."""
    if ADAPTER not in model.accepts:
        return {}
    listed = [{"name": a.name, "digest": a.digest, "rank": a.rank} for a in model.adapters]
    return {"adapters": listed}


def voice_card(voice: Voice) -> dict[str, Any]:
    """One voice; `language` is its native one, `languages` all that it speaks."""
    card: dict[str, Any] = {
        "id": voice.id,
        "name": voice.name,
        "language": voice.native,
        "languages": list(voice.spoken),
        "gender": voice.gender,
    }
    return card | ({"adapter": voice.adapter} if voice.adapter else {})


@router.get("/v1/models/{name:path}")
async def model(request: Request, context: Context, name: str) -> dict[str, Any]:
    """One model, by its name or what stands for it, and its voices."""
    if deepgram.asks(request):
        return await deepgram.model(context, request, name)
    if not await context.catalogue.models():
        raise NotFound(f"there is no model '{name}'", param="model")
    wanted, _ = context.names(name, DEFAULT)
    found = await context.catalogue.model(wanted)
    card = model_card(found, context.catalogue.snapshot)
    return {**card, "id": name, "voices": [voice_card(v) for v in found.voices]}


@router.get("/v1/audio/models")
async def audio_models(context: Context) -> dict[str, Any]:
    """The models that speak, which are all."""
    return {"models": [{"id": name} for name in await context.catalogue.models()]}


@router.get("/v1/audio/voices")
@router.get("/v1/audio/speech/voices", include_in_schema=False)
async def voices(
    request: Request, context: Context, model: Annotated[str, Query()] = DEFAULT
) -> dict[str, Any]:
    """The voices of one model, and those that the caller made of recordings.

    `language` and `gender` choose among the model's; `limit` and `after` (an id) give a page.
    """
    wanted, _ = context.names(model, DEFAULT)
    found = await context.catalogue.model(wanted)
    listed = [voice_card(voice) for voice in found.voices if _is_wanted(voice, request)]
    own = await _own(request, context)
    query = request.query_params
    if "limit" not in query and "after" not in query:
        return {"voices": listed, "uploaded_voices": own}
    after = "after", query.get("after")
    shown = page(listed, lambda card: card["id"], limit_of(query, "limit", 100, 1000), after=after)
    last = shown.items[-1]["id"] if shown.items else None
    more = {"has_more": shown.more, "last_id": last}
    return {"voices": list(shown.items), **more, "uploaded_voices": own}


def _is_wanted(voice: Voice, request: Request) -> bool:
    language, gender = (request.query_params.get(name) for name in ("language", "gender"))
    return (not language or voice.speaks(language)) and gender in (None, "", voice.gender)


async def _own(request: Request, context: GatewayContext) -> list[dict[str, Any]]:
    try:
        tenant = tenant_of(context, request)
    except InvalidApiKey:
        return []
    return [uploaded_card(voice) for voice in await context.voices.of(tenant)]


def uploaded_card(voice: StoredVoice) -> dict[str, Any]:
    """A voice that was made of a recording, for its owner."""
    return {
        "name": voice.name,
        "consent": voice.consent,
        "ref_text": voice.text,
        "duration_s": round(voice.seconds, 3),
        "created_at": int(voice.created_unix_s),
        **({"adapter": voice.adapter} if voice.adapter else {}),
    }


@router.get("/health", response_class=PlainTextResponse)
async def health() -> PlainTextResponse:
    """Whether this process answers; what it can speak is told by the lists."""
    return PlainTextResponse("OK")
