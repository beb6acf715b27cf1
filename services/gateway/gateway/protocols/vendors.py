"""Whose protocol a request belongs to that reached none of its routes."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from gateway.protocols import cartesia, deepgram, elevenlabs
from gateway.protocols.shared.shapes import ErrorShape, openai_shape

_PATHS = (
    (("/v1/text-to-", "/v1/voices", "/v2/voices", "/v1/user"), elevenlabs.error_shape),
    (("/tts", "/voices"), cartesia.error_shape),
    (("/v1/speak", "/v2/speak"), deepgram.error_shape),
)
_HEADERS = (
    ("xi-api-key", "", elevenlabs.error_shape),
    ("cartesia-version", "", cartesia.error_shape),
    ("authorization", "token ", deepgram.error_shape),
)


def shape_of(connection: HTTPConnection) -> ErrorShape:
    """The shape that its protocol chose, or that its path or its headers tell."""
    chosen: ErrorShape | None = getattr(connection.state, "error_shape", None)
    if chosen is not None:
        return chosen
    path = connection.scope.get("path", "")
    for starts, shape in _PATHS:
        if path.startswith(starts):
            return shape
    for header, start, shape in _HEADERS:
        value = connection.headers.get(header)
        if value is not None and value.lower().startswith(start):
            return shape
    return openai_shape
