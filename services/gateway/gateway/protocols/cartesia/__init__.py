"""Cartesia's text-to-speech: `/tts/bytes`, `/tts/sse` and `/tts/websocket`."""

from gateway.protocols.cartesia.http import router
from gateway.protocols.cartesia.socket import CartesiaSession

__all__ = ["CartesiaSession", "router"]
