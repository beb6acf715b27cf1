"""Models as Deepgram's clients list them: each voice is one. The paths are OpenAI's too."""

from __future__ import annotations

from typing import Any

from starlette.requests import HTTPConnection

from gateway.errors import NotFound
from gateway.protocols.shared.voices import Listed, listed
from gateway.requests import GatewayContext

_GENDERS = {"female": "feminine", "male": "masculine", "neutral": "neutral"}


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
