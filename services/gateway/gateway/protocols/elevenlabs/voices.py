"""Voices, models and the account, as ElevenLabs' clients read them."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request

from gateway.protocols.shared import voices as shared
from gateway.protocols.shared.context import Context, tenant_of
from gateway.protocols.shared.voices import Listed, limit_of, page
from gateway.requests import GatewayContext

router = APIRouter()

_PAGE: Final = 10
# What their clients may change of a voice; only the speed is followed, in requests.
_SETTINGS: Final = {
    "stability": 0.5,
    "similarity_boost": 0.75,
    "style": 0.0,
    "use_speaker_boost": True,
    "speed": 1.0,
}
_UNLIMITED: Final = 1 << 31


def _card(voice: Listed) -> dict[str, Any]:
    labels = {"language": voice.languages[0]} | ({"gender": voice.gender} if voice.gender else {})
    return {
        "voice_id": voice.id,
        "name": voice.name,
        "category": "cloned" if voice.own else "premade",
        "labels": labels,
        "description": voice.name,
        "settings": _SETTINGS,
        "verified_languages": [
            {"language": tag.partition("-")[0], "locale": tag, "model_id": "default"}
            for tag in voice.languages
        ],
        "is_owner": voice.own,
        "created_at_unix": voice.created_unix_s,
    }


@router.get("/v1/voices")
async def voices(request: Request, context: Context) -> dict[str, Any]:
    """All voices: this version has no pages."""
    return {"voices": [_card(voice) for voice in await shared.listed(context, request)]}


@router.get("/v2/voices")
async def voices_page(request: Request, context: Context) -> dict[str, Any]:
    """A page of voices; the token of the next is the last one's id."""
    query = request.query_params
    found = shared.chosen(await shared.listed(context, request), query)
    if wanted := query.getlist("voice_ids"):
        found = [voice for voice in found if voice.id in wanted]
    after = "next_page_token", query.get("next_page_token")
    shown = page(found, lambda voice: voice.id, limit_of(query, "page_size", _PAGE), after=after)
    return {
        "voices": [_card(voice) for voice in shown.items],
        "has_more": shown.more,
        "total_count": len(found),
        "next_page_token": shown.items[-1].id if shown.more else None,
    }


@router.get("/v1/voices/settings/default")
@router.get("/v1/voices/{voice_id}/settings")
async def settings() -> dict[str, Any]:
    """What a voice is spoken with where a request says nothing."""
    return _SETTINGS


@router.get("/v1/voices/{voice_id}")
async def voice(request: Request, context: Context, voice_id: str) -> dict[str, Any]:
    """One voice."""
    return _card(await shared.find(context, request, voice_id))


@router.post("/v1/voices/add")
async def add(request: Request, context: Context) -> dict[str, Any]:
    """A voice of a recording (`files`, the last one), for models that clone."""
    made = await shared.make(context, request, "files")
    return {"voice_id": made.name, "requires_verification": False}


@router.delete("/v1/voices/{voice_id}")
async def delete(request: Request, context: Context, voice_id: str) -> dict[str, Any]:
    """Delete a voice that was made of a recording."""
    await context.voices.delete(tenant_of(context, request), voice_id)
    return {"status": "ok"}


@router.get("/v1/user/subscription")
async def subscription(request: Request, context: Context) -> dict[str, Any]:
    """What the key may: nothing is sold here, so characters have no end."""
    kept = await context.voices.of(tenant_of(context, request))
    return {
        "tier": "self-hosted",
        "status": "active",
        "character_count": 0,
        "character_limit": _UNLIMITED,
        "max_credit_limit_extension": 0,
        "can_extend_character_limit": False,
        "allowed_to_extend_character_limit": False,
        "voice_slots_used": len(kept),
        "voice_limit": context.settings.max_voices,
        "voice_add_edit_counter": 0,
        "professional_voice_slots_used": 0,
        "professional_voice_slots_used_in_workspace": 0,
        "professional_voice_limit": 0,
        "can_extend_voice_limit": False,
        "can_use_instant_voice_cloning": True,
        "can_use_professional_voice_cloning": False,
        "current_overage": {"amount": "0", "currency": "usd"},
        "open_invoices": [],
        "has_open_invoices": False,
    }


@router.get("/v1/user")
async def user(request: Request, context: Context) -> dict[str, Any]:
    """Who the key belongs to, and what it may."""
    told = await subscription(request, context)
    tenant = tenant_of(context, request)
    return {
        "user_id": tenant or "anonymous",
        "subscription": told,
        "is_new_user": False,
        "is_onboarding_completed": True,
        "can_use_delayed_payment_methods": False,
        "created_at": 0,
    }


async def models(context: GatewayContext) -> list[dict[str, Any]]:
    """`GET /v1/models` as ElevenLabs answers it; the path is OpenAI's too."""
    return [
        {
            "model_id": name,
            "name": name,
            "can_do_text_to_speech": True,
            "can_do_voice_conversion": False,
            "languages": [
                {"language_id": tag.partition("-")[0], "name": tag}
                for tag in dict.fromkeys(tag for voice in model.voices for tag in voice.spoken)
            ],
        }
        for name, model in (await context.catalogue.models()).items()
    ]
