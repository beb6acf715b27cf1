"""Voices, as Cartesia's clients list, read, make and delete them."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gateway.protocols.cartesia.fields import error_shape
from gateway.protocols.shared import voices as shared
from gateway.protocols.shared.context import Context
from gateway.protocols.shared.credentials import tenant_of
from gateway.protocols.shared.pages import limit_of, page
from gateway.protocols.shared.shapes import shaped
from gateway.protocols.shared.voices import Listed

router = APIRouter(dependencies=[shaped(error_shape)])

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
