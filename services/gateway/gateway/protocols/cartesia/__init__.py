"""Cartesia's text-to-speech: `/tts/bytes`, `/tts/sse`, `/tts/websocket`, and its voices."""

from gateway.protocols.cartesia.fields import error_shape
from gateway.protocols.cartesia.http import router
from gateway.protocols.cartesia.socket import CartesiaSession
