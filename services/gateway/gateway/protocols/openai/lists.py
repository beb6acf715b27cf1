"""Models and voices, as clients of OpenAI and of servers in its shape list them, and usage."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from gateway.errors import NotFound
from gateway.protocols import deepgram
from gateway.protocols.shared.context import Context, tenant_of
from gateway.protocols.shared.voices import limit_of, own, page
from gateway.requests import DEFAULT, ReplicaSnapshot, StoredVoice
from gateway.requests.usage import UsageSum
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.parameters import ADAPTER
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
    uploaded = [uploaded_card(voice) for voice in await own(context, request)]
    query = request.query_params
    if "limit" not in query and "after" not in query:
        return {"voices": listed, "uploaded_voices": uploaded}
    after = "after", query.get("after")
    shown = page(listed, lambda card: card["id"], limit_of(query, "limit", 100, 1000), after=after)
    last = shown.items[-1]["id"] if shown.items else None
    more = {"has_more": shown.more, "last_id": last}
    return {"voices": list(shown.items), **more, "uploaded_voices": uploaded}


def _is_wanted(voice: Voice, request: Request) -> bool:
    language, gender = (request.query_params.get(name) for name in ("language", "gender"))
    return (not language or voice.speaks(language)) and gender in (None, "", voice.gender)


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


# As long as it is kept.
_MOST_DAYS: Final = 400
_DAYS: Final = 30


@router.get("/v1/usage")
async def usage(request: Request, context: Context) -> dict[str, Any]:
    """From `start_date` to `end_date` (UTC, both included); the last 30 days without."""
    tenant = tenant_of(context, request)
    today = datetime.now(UTC).date()
    last = _day(request, "end_date", today)
    first = _day(request, "start_date", last - timedelta(days=_DAYS - 1))
    if not 0 <= (last - first).days < _MOST_DAYS:
        raise BadRequest(f"ask for 1 to {_MOST_DAYS} days", param="start_date")
    found = await context.services.usage.of(tenant, first, last)
    total = UsageSum()
    for one in found:
        total.add(one.used)
    data = [{"date": o.day.isoformat(), "model": o.model, **_shown(o.used)} for o in found]
    return {
        "object": "list",
        "start_date": first.isoformat(),
        "end_date": last.isoformat(),
        "data": data,
        "total": _shown(total),
    }


def _day(request: Request, name: str, default: date) -> date:
    given = request.query_params.get(name)
    try:
        return default if given is None else date.fromisoformat(given)
    except ValueError:
        raise BadRequest(f"{name} is a day like {default.isoformat()}", param=name) from None


def _shown(used: UsageSum) -> dict[str, Any]:
    return {
        "requests": used.requests,
        "characters": used.characters,
        "audio_seconds": round(used.seconds, 3),
    }
