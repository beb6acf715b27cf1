"""Cartesia's text-to-speech: `/tts/bytes`, `/tts/sse`, `/tts/websocket`, and its voices."""

from gateway.protocols.cartesia.fields import error_shape
from gateway.protocols.cartesia.http import router
from gateway.protocols.cartesia.socket import CartesiaSession
from gateway.protocols.cartesia.voices import router as voices_router

router.include_router(voices_router)

__all__ = ["CartesiaSession", "error_shape", "router"]
