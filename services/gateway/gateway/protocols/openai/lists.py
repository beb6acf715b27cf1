"""Models and voices, as clients of OpenAI and of servers in its shape list them.

Lists need no key: menus that cannot read them fall back to OpenAI's names.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from gateway.errors import NotFound
from gateway.protocols.shared.context import Context
from gateway.requests import DEFAULT
from ttscommon.replicas import Model, Voice

router = APIRouter()


def model_card(model: Model) -> dict[str, Any]:
    """One model, as OpenAI lists its own."""
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": "antiphon",
        "family": model.family,
        "sample_rate": model.sample_rate,
    }


def voice_card(voice: Voice) -> dict[str, Any]:
    return {"id": voice.id, "name": voice.name, "language": voice.language}


@router.get("/v1/models/{name:path}")
async def model(context: Context, name: str) -> dict[str, Any]:
    """One model, by its name or what stands for it, and its voices."""
    models = context.catalogue.snapshot.models()
    wanted, _ = context.names(name, DEFAULT)
    found = context.catalogue.snapshot.model(wanted, context.settings.default_model)
    if not models:
        raise NotFound(f"there is no model '{name}'", param="model")
    return {**model_card(found), "id": name, "voices": [voice_card(v) for v in found.voices]}


@router.get("/v1/audio/models")
async def audio_models(context: Context) -> dict[str, Any]:
    """The models that speak, which are all."""
    return {"models": [{"id": name} for name in context.catalogue.snapshot.models()]}


@router.get("/v1/audio/voices")
@router.get("/v1/audio/speech/voices", include_in_schema=False)
async def voices(context: Context, model: Annotated[str, Query()] = DEFAULT) -> dict[str, Any]:
    """The voices of one model."""
    wanted, _ = context.names(model, DEFAULT)
    found = context.catalogue.snapshot.model(wanted, context.settings.default_model)
    return {"voices": [voice_card(voice) for voice in found.voices]}


@router.get("/health", include_in_schema=False)
async def health() -> PlainTextResponse:
    """Whether this process answers; what it can speak is told by the lists."""
    return PlainTextResponse("OK")
